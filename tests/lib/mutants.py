"""Each SDK, broken in one way for each rule that an SDK can break: {rule: (file, old, new, ...)}.

A mutant is the SDK with the first `old` replaced by `new`, and so on in pairs; the rule that it is
listed under must be found.
"""
EXIT = '__import__("os")._exit(3)'

PYTHON = {
    "initialize.answer": ("connection.py", "plugin._introduction())", "[])"),
    "initialize.silence": ("plugin.py", "        connection.serve()\n",
                           "        write(b'{\"jsonrpc\":\"2.0\",\"method\":\"x\"}\\n')\n"
                           "        connection.serve()\n"),
    "initialize.name": ("plugin.py", '"name": self.name', '"name": "other"'),
    "initialize.version": ("plugin.py", '"version": self.version', '"version": "9.9.9"'),
    "initialize.api_version": ("plugin.py", '"api_version": API_VERSION', '"api_version": 2'),
    "initialize.methods": ("plugin.py", '"methods": self._methods', '"methods": ["whole.add"]'),
    "initialize.notifications": ("plugin.py", '"notifications": self.notifications',
                                 '"notifications": ["whole.other"]'),
    "initialize.capabilities": ("plugin.py", '"capabilities_used": self.capabilities',
                                '"capabilities_used": ["read:fs:/etc"]'),
    "config.start": ("connection.py", 'config = request.params.get("config")\n',
                     'config = self._state == _OPEN and request.params.get("config")\n'),
    "initialized.lives": ("connection.py", "            self._state = _OPEN\n",
                          f"            {EXIT}\n"),
    "shutdown.notification": ("connection.py", 'request.method == "shutdown"', "False"),
    "shutdown.eof": ("connection.py", "error=str(error))\n        self.begin_end()\n",
                     "error=str(error))\n"),
    "ping.answer": ("connection.py", '{"status": "ok"}', '{"status": "fine"}'),
    "id.number": ("connection.py", '"id": message_id, "result"',
                  '"id": type(message_id) is int and message_id % 2**32 or message_id, "result"'),
    "id.string": ("connection.py", '"id": message_id, "result"',
                  '"id": message_id if type(message_id) is int else 0, "result"'),
    "method.unknown": ("errors.py", "METHOD_NOT_FOUND = -32601", "METHOD_NOT_FOUND = -32099"),
    "notification.unknown": ("connection.py", "            return\n        error: Dict",
                             "            message_id = None\n        error: Dict"),
    "cancel.unknown": ("connection.py", "            self._on_cancel(request)\n",
                       f"            {EXIT}\n"),
    "cancel.call": ("connection.py", "            self._on_cancel(request)\n            return\n",
                    '            self._on_cancel(request)\n'
                    '            self._answer = lambda *answer: None\n            return\n'),
    "progress.call": ("context.py", '"id": self.call_id, "progress"', '"id": 4000000, "progress"'),
    "projects.answer": ("connection.py", "if not isinstance(project, str):", "if True:"),
    "call.answer": ("connection.py", "            result = job()\n",
                    f'            request.method != "whole.note" or {EXIT}\n'
                    "            result = job()\n"),
    "call.result": ("connection.py", "            self._answer(request.id, result)\n\n",
                    '            self._answer(request.id, {"value": result})\n\n'),
    "call.context": ("context.py", "    known = {",
                     "    if set(context) - set(MEMBERS):\n"
                     '        raise InvalidParams("unknown fields")\n    known = {'),
    "call.invalid": ("errors.py", "detail), INVALID_PARAMS, data)", "detail), -32000, data)"),
    "call.types": ("connection.py", 'raise InvalidParams("params is not an object")', EXIT),
    "tool.answer": ("connection.py", "            result = job()\n",
                    f'            request.method != "whole.find" or {EXIT}\n'
                    "            result = job()\n"),
    "hook.answer": ("plugin.py", 'f"kaged.hook.{name}"', 'f"hook.{name}"'),
    "hook.result": ("connection.py", "            self._answer(request.id, result)\n\n",
                    '            hooked = request.method.startswith("kaged.hook")\n'
                    '            self._answer(request.id, {"inject": 5} if hooked else result)\n\n'),
    "hook.compactor": ("hooks.py", "list(superseded)}", '["nobody"]}'),
    "config.valid": ("connection.py", "        def take() -> None:\n",
                     '        def take() -> None:\n            if self._state == _OPEN:\n'
                     '                raise PluginError("no", CONFIG_INVALID)\n'),
    "config.garbage": ("connection.py", 'raise InvalidParams("config is not an object")', EXIT),
    "big.line": ("wire.py", "LINE_MAX = 4 << 20", "LINE_MAX = 4 << 14"),
    "concurrent.answers": ("connection.py", "        self._work.put(start)\n",
                           "        self._running + self._work.qsize() > 3 or self._work.put(start)\n"),
    "concurrent.ping": ("connection.py", "lambda request: self._answer(",
                        "lambda request: self._running + self._work.qsize() > 3 or self._answer("),
    "stdout.json": ("plugin.py", "    os.dup2(2, 1)\n", ""),
    "stdout.batch": ("connection.py", "        with self._out:\n            self._send(line)\n\n"
                     "    # -- requests to the host",
                     '        with self._out:\n            self._send(b"[" + line[:-1] + b"]\\n")\n\n'
                     "    # -- requests to the host"),
    "stdout.answer": ("connection.py", '"result": result})', '"result": result, "error": None})'),
    "stdout.request": ("connection.py", '"method": method, "params": params})',
                       '"method": method, "params": "text"})'),
    "line.length": ("connection.py", '"method": method, "params": params})',
                    '"method": method, "params": {"pad": "x" * 300000}})'),
    "line.end": ("plugin.py", "        connection.serve()\n",
                 "        connection.serve()\n        write(b'{\"half')\n"),
    "id.known": ("connection.py", '"id": message_id, "result"',
                 '"id": message_id + 1000 * (message_id != 1), "result"'),
    "id.once": ("connection.py", "        with self._out:\n            self._send(line)\n",
                "        with self._out:\n            self._send(line + line)\n"),
    "message.early": ("connection.py", "self._answer(request.id, plugin._introduction())",
                      "self._answer(request.id, plugin._introduction())\n"
                      "        self._send(b'{\"jsonrpc\":\"2.0\",\"method\":\"whole.noted\"}\\n')"),
    "notification.declared": ("connection.py", '"method": method, "params": params})',
                              '"method": "whole.other", "params": params})'),
    "notification.rate": ("connection.py", "        with self._out:\n            self._send(line)\n\n"
                          "    # -- requests to the host",
                          "        with self._out:\n            self._send(line * 500)\n\n"
                          "    # -- requests to the host"),
    "request.known": ("connection.py", '"method": method,\n', '"method": "kaged.other",\n'),
    "storage.declared": ("connection.py", 'params.get("storage_available") is True', "True"),
    "stream.open": ("plugin.py", "lambda: os.read(source, _READ_BYTES)",
                    "lambda: (os.close(source), threading.Event().wait()) if self._config "
                    "else os.read(source, _READ_BYTES)"),
    "capability.used": ("connection.py", "        self._must_be_open()\n        future",
                        '        raise PluginError("no")\n        future'),
    "notification.used": ("connection.py", "        self._must_be_open()\n        line",
                          "        return\n        line"),
}

SHELL = {
    "initialize.answer": ('    kaged__introduce "$id"\n', "    kaged__write R \"$id\" '[]'\n"),
    "initialize.silence": ("    trap kaged__on_term TERM\n",
                           "    trap kaged__on_term TERM\n    kaged__write N '\"x\"' '{}'\n"),
    "initialize.name": ('"name=$kaged__name" "version', '"name=other" "version'),
    "initialize.version": ('"version=$kaged__version"', '"version=9.9.9"'),
    "initialize.api_version": ("api_version:=$KAGED_API_VERSION", "api_version:=2"),
    "initialize.methods": ('kaged_array "${kaged__methods[@]}"', "kaged_array whole.add"),
    "initialize.notifications": ('kaged_array "${kaged__notifications[@]}"',
                                 "kaged_array whole.other"),
    "initialize.capabilities": ('kaged_array "${kaged__capabilities[@]}"',
                                "kaged_array read:fs:/etc"),
    "config.start": ('    kaged_get "$2" config\n    if [[ ',
                     '    kaged_get "$2" config\n    if [[ $kaged__state != open || '),
    "initialized.lives": ("        kaged__state=open\n", "        exit 3\n"),
    "shutdown.notification": ("if [[ $method == shutdown ]]", "if [[ $method == shut ]]"),
    "shutdown.eof": ("        :\n    done\n    kaged__end\n",
                     "        :\n    done\n    ((kaged__ending)) || exit 7\n    kaged__end\n"),
    "ping.answer": ('\'{"status":"ok"}\'', '\'{"status":"fine"}\''),
    "id.number": ("def result: {jsonrpc: \"2.0\", id: (.[0] | value)",
                  'def result: {jsonrpc: "2.0", id: (.[0] | value '
                  '| if type == "number" then . % 4294967296 else . end)'),
    "id.string": ("def result: {jsonrpc: \"2.0\", id: (.[0] | value)",
                  'def result: {jsonrpc: "2.0", id: (.[0] | value '
                  '| if type == "string" then 0 else . end)'),
    "method.unknown": ("-32601 'method not found'", "-32099 'method not found'"),
    "notification.unknown": ('    [[ -n $1 ]] || return 0\n    kaged_string "$3',
                             '    set -- "${1:-null}" "${@:2}"\n    kaged_string "$3'),
    "cancel.unknown": ('    local id=$1 method=$2 problem=$3\n',
                       '    local id=$1 method=$2 problem=$3\n    [[ $2 != kaged.cancel ]] || exit 3\n'),
    "cancel.call": ('    local id=$1 method=$2 problem=$3\n',
                    '    local id=$1 method=$2 problem=$3\n    [[ $2 != kaged.cancel ]] || exit 3\n'),
    "progress.call": ('"id:=$kaged__call_id" "progress:=$1"', '"id:=4000000" "progress:=$1"'),
    "projects.answer": ('kaged_get "$params" project\n', 'kaged_type=none\n'),
    "call.answer": ('    kaged__busy=1\n', '    [[ $1 != note ]] || exit 3\n    kaged__busy=1\n'),
    "call.result": ('kaged__write R "$id" "$kaged__result"',
                    'kaged__write R "$id" "{\\"value\\":$kaged__result}"'),
    "call.context": ('then "_config is not an object"\n',
                     'then "_config is not an object"\n'
                     '    elif ((._context // {}) | keys - members | length) > 0 then "unknown"\n'),
    "call.invalid": ('"invalid params: $1" -32602', '"invalid params: $1" -32000'),
    "call.types": ("kaged__refuse \"$id\" -32602 'invalid params' \"$problem\"", "exit 4"),
    "tool.answer": ('    kaged__busy=1\n',
                    '    [[ $1 != find_notes ]] || exit 3\n    kaged__busy=1\n'),
    "hook.answer": ('"kaged.hook.$1"', '"hook.$1"'),
    "hook.result": ('kaged__write R "$id" "$kaged__result"',
                    'kaged__write R "$id" "${kaged__result/\\"hello\\"/5}"'),
    "hook.compactor": ('superseded:="$2"', "superseded:='[\"nobody\"]'"),
    "config.valid": ('    config=$REPLY\n    if kaged__run',
                     "    config=$REPLY\n    if [[ $kaged__state == open ]]; then\n"
                     '        kaged__refuse "$id" -32004 no\n        return\n    fi\n'
                     "    if kaged__run"),
    "config.garbage": ("        kaged__refuse \"$id\" -32602 'invalid params' "
                       "'config is not an object'\n", "        exit 5\n"),
    "big.line": ("KAGED_LINE_MAX=4194304", "KAGED_LINE_MAX=65536"),
    "concurrent.answers": ('*) kaged__queue+=("${kaged__fields[@]:0:KAGED__REQUEST_FIELDS}") ;;',
                           "*) ((${#kaged__queue[@]} > 26)) || "
                           'kaged__queue+=("${kaged__fields[@]:0:KAGED__REQUEST_FIELDS}") ;;'),
    "concurrent.ping": ('ping) kaged__on_request "${kaged__fields[@]:1}" ;;',
                        "ping) ((${#kaged__queue[@]} > 26)) || "
                        'kaged__on_request "${kaged__fields[@]:1}" ;;'),
    "stdout.json": ("</dev/null 1>&2\n", "</dev/null\n"),
    "stdout.batch": ("def notification: {", "def notification: [{",
                     "params: (.[1] | value)} | line;", "params: (.[1] | value)}] | line;"),
    "stdout.answer": ("result: (.[1] | value)} | line", "result: (.[1] | value), error: null} | line"),
    "stdout.request": ("params: (.[1] | value)} | line;", 'params: "text"} | line;'),
    "line.length": ("params: (.[1] | value)} | line;", 'params: {pad: ("x" * 300000)}} | line;'),
    "line.end": ("    exec {kaged__wire}>&-\n", "",
                 "    kaged__close_jq\n    exit 0\n",
                 "    kaged__close_jq\n    printf '{\"half' >&\"$kaged__wire\"\n    exit 0\n"),
    "id.known": ("def result: {jsonrpc: \"2.0\", id: (.[0] | value)",
                 'def result: {jsonrpc: "2.0", id: (.[0] | value '
                 '| if . == 1 then . else . + 1000 end)'),
    "id.once": ("result: (.[1] | value)} | line;",
                'result: (.[1] | value)} | line | . + "\\n" + .;'),
    "message.early": ('    kaged__write R "$1" "$REPLY"\n}\n',
                      '    kaged__write R "$1" "$REPLY"\n'
                      "    kaged__write N '\"whole.noted\"' '{}'\n}\n"),
    "notification.declared": ('kaged__write N "$REPLY"', "kaged__write N '\"whole.other\"'"),
    "notification.rate": ("def notification: {", 'def notification: {',
                          "params: (.[1] | value)} | line;",
                          'params: (.[1] | value)} | line | [., range(500) as $n | $line] '
                          '| join("\\n");',
                          "def notification: {", "def notification: . as $fields | {",
                          "| line | [., range(500) as $n | $line] | join",
                          "| line | . as $line | [range(500) | $line] | join"),
    "request.known": ('    kaged_string "$1"\n    method=$REPLY', '    kaged_string kaged.other\n'
                      "    method=$REPLY"),
    "storage.declared": ("&& kaged_storage_available=$REPLY", "; kaged_storage_available=true"),
    "stream.open": ("    local LC_ALL=C rest ahead=$kaged__ahead\n",
                    "    local LC_ALL=C rest ahead=$kaged__ahead\n    if [[ $kaged__told != '{}' ]]; then\n"
                    '        exec {kaged__in}<&-\n        read -r -u "$kaged__reader_out"\n    fi\n'),
    "capability.used": ("    local id=$kaged__next_id method\n",
                        "    local id=$kaged__next_id method\n    REPLY='{}'\n    return 0\n"),
    "notification.used": ("kaged_notify() {\n", "kaged_notify() {\n    return 0\n"),
}
SHELL = {rule: ("kaged.sh", *pairs) for rule, pairs in SHELL.items()}

TS = {
    "initialize.answer": ("        return {\n            name: this.name,\n",
                          "        return 5;\n        return {\n            name: this.name,\n"),
    "initialize.silence": ("        this.#transport = transport;\n",
                           "        this.#transport = transport;\n"
                           "        this.#send('{\"jsonrpc\":\"2.0\",\"method\":\"x\"}');\n"),
    "initialize.name": ("            name: this.name,\n            version",
                        '            name: "other",\n            version'),
    "initialize.version": ("            version: this.version,\n            api",
                           '            version: "9.9.9",\n            api'),
    "initialize.api_version": ("            api_version: API_VERSION,\n            methods",
                               "            api_version: 2,\n            methods"),
    "initialize.methods": ("methods: Object.keys(this.#options.methods ?? {})",
                           'methods: ["whole.add"]'),
    "initialize.notifications": ("notifications: [...(this.#options.notifications ?? [])]",
                                 'notifications: ["whole.other"]'),
    "initialize.capabilities": ("capabilities_used: [...(this.#options.capabilities ?? [])]",
                                'capabilities_used: ["read:fs:/etc"]'),
    "config.start": ('const config = params["config"];',
                     'const config = this.#state === "open" && params["config"];'),
    "initialized.lives": ('        this.#state = "open";\n', "        process.exit(3);\n"),
    "shutdown.notification": ('["shutdown", () => void this.#end()]', '["shutdown", () => {}]'),
    "shutdown.eof": ("lines.push(chunk), () => void this.#end()",
                     "lines.push(chunk), () => process.exit(7)"),
    "ping.answer": ('({ status: "ok" })', '({ status: "fine" })'),
    "id.number": ("const answer = { id, ...", "const answer = { "
                  'id: typeof id === "number" ? id >>> 0 : id, ...'),
    "id.string": ("const answer = { id, ...",
                  'const answer = { id: typeof id === "number" ? id : 0, ...'),
    "method.unknown": ("PluginError(ErrorCode.methodNotFound", "PluginError(ErrorCode.internal"),
    "notification.unknown": ("            if (id !== null)\n                this.#answer",
                             '            if (id !== null || "error" in outcome)\n'
                             "                this.#answer"),
    "cancel.unknown": ("return this.#cancel(message.params);", "process.exit(3);"),
    "cancel.call": ("return this.#cancel(message.params);", "process.exit(3);"),
    "progress.call": ("{ id, progress, total, message }", "{ id: 4000000, progress, total, message }"),
    "projects.answer": ('if (typeof project !== "string")', "if (true)"),
    "call.answer": ("        const { method } = message;\n",
                    "        const { method } = message;\n"
                    '        if (method === "whole.note") process.exit(3);\n'),
    "call.result": ("                return done({ result });",
                    '                return done({ result: message.method === "whole.add" ? {} '
                    ": result });"),
    "call.context": ("    const context = { ...given };\n",
                     "    const context = { ...given };\n    if (Object.keys(given).length > 6)\n"
                     '        throw invalidParams("unknown fields");\n'),
    "call.invalid": ("errors.js", "new PluginError(ErrorCode.invalidParams",
                     "new PluginError(ErrorCode.plugin"),
    "call.types": ('throw invalidParams("they are not an object")', "process.exit(4)"),
    "tool.answer": ("        const { method } = message;\n",
                    "        const { method } = message;\n"
                    '        if (method === "whole.find") process.exit(3);\n'),
    "hook.answer": ('register("kaged.hook."', 'register("hook."'),
    "hook.result": ("                return done({ result });",
                    '                return done({ result: message.method.startsWith("kaged.hook")'
                    " ? { inject: 5 } : result });"),
    "hook.compactor": ("types.js", '{ role: "compactor", ...result }',
                       '{ role: "compactor", ...result, superseded: ["nobody"] }'),
    "config.valid": ("        const keep = () => {\n",
                     '        if (this.#state === "open")\n'
                     '            throw new PluginError(ErrorCode.configInvalid, "no");\n'
                     "        const keep = () => {\n"),
    "config.garbage": ('throw invalidParams("config is not an object")', "process.exit(5)"),
    "big.line": ("lines.js", "LINE_BYTES_MAX = 4 * 1024 * 1024", "LINE_BYTES_MAX = 65536"),
    "concurrent.answers": ("                else\n                    this.#dispatch(message);",
                           '                else if (this.#running.size < 2 || '
                           'message.method === "ping")\n                    '
                           "this.#dispatch(message);"),
    "concurrent.ping": ("                else\n                    this.#dispatch(message);",
                        '                else if (this.#running.size < 2 || '
                        'message.method !== "ping")\n                    '
                        "this.#dispatch(message);"),
    "stdout.json": ("stdio.js", '    closeSync(1);\n    openSync("/proc/self/fd/2", "a");\n', ""),
    "stdout.batch": ("        this.#sendWhenOpen(line);\n    }\n    // -- out",
                     "        this.#sendWhenOpen(`[${line}]`);\n    }\n    // -- out"),
    "stdout.answer": ("{ result: outcome.result ?? null }",
                      "{ result: outcome.result ?? null, error: null }"),
    "stdout.request": ("encode({ method: type, params })", 'encode({ method: type, params: "text" })'),
    "line.length": ("encode({ method: type, params })",
                    'encode({ method: type, params: { pad: "x".repeat(300000) } })'),
    "line.end": ("stdio.js", "            process.exit(0);\n",
                 "            writeSync(fds.out, '{\"half');\n            process.exit(0);\n"),
    "id.known": ("const answer = { id, ...", "const answer = { "
                 'id: id === 1 ? id : id + 1000, ...'),
    "id.once": ("        this.#send(line ?? encode({ id, error",
                "        if (line !== null)\n            this.#send(line);\n"
                "        this.#send(line ?? encode({ id, error"),
    "message.early": ("            if (id !== null)\n                this.#answer(id, outcome);\n",
                      "            if (id !== null)\n                this.#answer(id, outcome);\n"
                      '            if (message.method === "initialize")\n                this.#send('
                      "'{\"jsonrpc\":\"2.0\",\"method\":\"whole.noted\"}');\n"),
    "notification.declared": ("encode({ method: type, params })",
                              'encode({ method: "whole.other", params })'),
    "notification.rate": ("        this.#sendWhenOpen(line);\n    }\n    // -- out",
                          "        for (let i = 0; i < 500; i++)\n"
                          "            this.#sendWhenOpen(line);\n    }\n    // -- out"),
    "request.known": ("encode({ id: this.#lastId + 1, method, params })",
                      'encode({ id: this.#lastId + 1, method: "kaged.other", params })'),
    "storage.declared": ('storage_available: params["storage_available"] === true',
                         "storage_available: true"),
    "stream.open": ("stdio.js", '            input.on("data", (chunk) => onChunk(chunk));\n',
                    '            input.on("data", (chunk) => {\n                onChunk(chunk);\n'
                    '                if (chunk.includes("initialized")) {\n'
                    "                    input.removeAllListeners();\n"
                    "                    input.destroy();\n"
                    "                    setInterval(() => {}, 1000);\n                }\n"
                    "            });\n"),
    "capability.used": ("    async #request(method, params) {\n",
                        "    async #request(method, params) {\n        return {};\n"),
    "notification.used": ("        const line = encode({ method: type, params });\n",
                          "        return;\n        const line = encode({ method: type, params });\n"),
}
TS = {rule: patch if patch[0].endswith(".js") else ("plugin.js", *patch)
      for rule, patch in TS.items()}

C = {
    "initialize.answer": ("system.c", "put_introduction(kaged_result(call), engine->plugin);",
                          "kaged_put(kaged_result(call), kaged_int(5));"),
    "initialize.silence": ("run.c", "    engine_loop(&engine);\n",
                           "    engine.link.write(engine.link.data, KG_STR("
                           '"{\\"jsonrpc\\":\\"2.0\\",\\"method\\":\\"x\\"}\\n"));\n'
                           "    engine_loop(&engine);\n"),
    "initialize.name": ("system.c", "kaged_text(plugin->name)", 'kaged_text("other")'),
    "initialize.version": ("system.c", "kaged_text(plugin->version)", 'kaged_text("9.9.9")'),
    "initialize.api_version": ("system.c", "kaged_int(KAGED_API_VERSION)", "kaged_int(2)"),
    "initialize.methods": ("system.c", "row = plugin->methods;", "row = plugin->methods + 1;"),
    "initialize.notifications": ("system.c", '"notifications", plugin->notifications',
                                 '"notifications", (const char *const[]){"whole.other", NULL}'),
    "initialize.capabilities": ("system.c", '"capabilities_used", plugin->capabilities',
                                '"capabilities_used", (const char *const[]){"read:fs:/etc", NULL}'),
    "config.start": ("system.c", "if (config == NULL || config->type != KG_OBJECT)",
                     "if (engine->state != ENGINE_OPEN || config == NULL || "
                     "config->type != KG_OBJECT)"),
    "initialized.lives": ("system.c", "    engine->state = ENGINE_OPEN;\n", "    exit(3);\n"),
    "shutdown.notification": ("system.c", '{"shutdown", run', '{"shut", run'),
    "shutdown.eof": ("engine.c", "        if (got == LINK_END)\n            return;",
                     "        if (got == LINK_END)\n            exit(7);"),
    "ping.answer": ("system.c", 'kaged_text("ok")', 'kaged_text("fine")'),
    "id.number": ("engine.c", "        kg_json_node(&json, id);",
                  "        id->type == KG_NUMBER ? kg_json_int(&json, atoll(id->text.data) & "
                  "0xffffffff) : kg_json_node(&json, id);"),
    "id.string": ("engine.c", "        kg_json_node(&json, id);",
                  "        id->type == KG_STRING ? kg_json_int(&json, 0) : "
                  "kg_json_node(&json, id);"),
    "method.unknown": ("engine.c", "kaged_fail(call, KAGED_METHOD_NOT_FOUND",
                       "kaged_fail(call, KAGED_INTERNAL"),
    "notification.unknown": ("engine.c", "    if (!request)\n        return;",
                             "    if (!request && result == 0)\n        return;"),
    "cancel.unknown": ("engine.c", "    if (run == NULL)\n        return kaged_fail(",
                       '    if (strcmp(message->method, "kaged.cancel") == 0)\n        exit(3);\n'
                       "    if (run == NULL)\n        return kaged_fail("),
    "cancel.call": ("engine.c", "    if (run == NULL)\n        return kaged_fail(",
                    '    if (strcmp(message->method, "kaged.cancel") == 0)\n        exit(3);\n'
                    "    if (run == NULL)\n        return kaged_fail("),
    "progress.call": ("call.c", "    kg_json_node(&json, call->id);", "    kg_json_int(&json, 4000000);"),
    "projects.answer": ("system.c", "if (project != NULL && project->type == KG_STRING)",
                        "if (project == NULL)"),
    "call.answer": ("engine.c", "    int result = run_message(&call, message);\n",
                    '    if (strcmp(message->method, "whole.note") == 0)\n        exit(3);\n'
                    "    int result = run_message(&call, message);\n"),
    "call.result": ("engine.c", "kg_buf_view(&call->result->buf) : KG_STR_NULL",
                    'strcmp(message->method, "whole.add") ? kg_buf_view(&call->result->buf) : '
                    'KG_STR("{}") : KG_STR_NULL'),
    "call.context": ("engine.c", "    }\n    return 0;\n}\n\nstatic const struct kg_node nothing",
                     "    }\n    return context != NULL && context->count > KG_COUNT(rows)\n"
                     '               ? kaged_invalid_params(call, "unknown fields") : 0;\n}\n\n'
                     "static const struct kg_node nothing"),
    "call.invalid": ("call.c", "set_failure(call, KAGED_INVALID_PARAMS",
                     "set_failure(call, KAGED_PLUGIN_ERROR"),
    "call.types": ("engine.c", 'return kaged_invalid_params(call, "they are not an object");',
                   "exit(4);"),
    "tool.answer": ("engine.c", "    int result = run_message(&call, message);\n",
                    '    if (strcmp(message->method, "whole.find") == 0)\n        exit(3);\n'
                    "    int result = run_message(&call, message);\n"),
    "hook.answer": ("engine.c", 'after(method, "kaged.hook.")', 'after(method, "hook.")'),
    "hook.result": ("engine.c", "kg_buf_view(&call->result->buf) : KG_STR_NULL",
                    'strncmp(message->method, "kaged.h", 7) ? kg_buf_view(&call->result->buf) : '
                    'KG_STR("{\\"inject\\":5}") : KG_STR_NULL'),
    "hook.compactor": ("call.c", 'kaged_json(kaged_json_get(kaged_json_at(superseded, i), "id"))',
                       'kaged_text("nobody")'),
    "config.valid": ("system.c", "    call->params = call->config = config;\n",
                     "    if (engine->state == ENGINE_OPEN)\n"
                     '        return kaged_fail(call, KAGED_CONFIG_INVALID, "no");\n'
                     "    call->params = call->config = config;\n"),
    "config.garbage": ("system.c", 'return kaged_invalid_params(call, "config is not an object");',
                       "exit(5);"),
    "big.line": ("stdio.c", "#define READ_BYTES 65536\n",
                 "#define READ_BYTES 65536\n#undef LINE_BYTES_MAX\n#define LINE_BYTES_MAX 65536\n"),
    "concurrent.answers": ("engine.c", "#define HELD_MAX 1024", "#define HELD_MAX 2",
                           "        if (message->kind == MESSAGE_REQUEST)\n            answer_error",
                           "        if (false)\n            answer_error"),
    "concurrent.ping": ("engine.c", "    if (runs && strcmp(message->method, \"ping\") != 0)\n",
                        '    if (engine->held_count > 1 && strcmp(message->method, "ping") == 0)\n'
                        '        message_free(message);\n'
                        '    else if (runs && strcmp(message->method, "ping") != 0)\n'),
    "stdout.json": ("stdio.c", "    if (instead >= 0)\n",
                    "    if (instead >= 0 && fd != STDOUT_FILENO)\n"),
    "stdout.batch": ("engine.c", "    kg_json_named_text(&json, \"method\", type);\n",
                     "    engine->out.length = 0;\n    kg_buf_char(&engine->out, '[');\n"
                     "    json.comma = false;\n"
                     "    kg_json_begin(&json, '{');\n"
                     '    kg_json_named_text(&json, "jsonrpc", "2.0");\n'
                     '    kg_json_named_text(&json, "method", type);\n',
                     "    kg_json_end(&json, '}');\n    return is_fit(engine) && send_out(engine);",
                     "    kg_json_end(&json, '}');\n    kg_json_end(&json, ']');\n"
                     "    return is_fit(engine) && send_out(engine);"),
    "stdout.answer": ("engine.c", 'result : KG_STR("null"));\n    kg_json_end',
                      'result : KG_STR("null"));\n    kg_json_key(&json, "error");\n'
                      "    kg_json_null(&json);\n    kg_json_end"),
    "stdout.request": ("engine.c", 'kg_json_raw(&json, params.length > 0 ? params : KG_STR("{}"));',
                       'kg_json_text(&json, "text");'),
    "line.length": ("engine.c", 'kg_json_raw(&json, params.length > 0 ? params : KG_STR("{}"));',
                    "kg_json_begin(&json, '[');\n    for (int i = 0; i < 100000; i++)\n"
                    "        kg_json_int(&json, 100);\n    kg_json_end(&json, ']');"),
    "line.end": ("run.c", "    engine_free(&engine);\n",
                 '    engine.link.write(engine.link.data, KG_STR("{\\"half"));\n'
                 "    engine_free(&engine);\n"),
    "id.known": ("engine.c", "        kg_json_node(&json, id);",
                 "        kg_json_int(&json, atoll(id->text.data) > 1 ? "
                 "atoll(id->text.data) + 1000 : 1);"),
    "id.once": ("engine.c", "    bool sent = engine->link.write(",
                "    engine->link.write(engine->link.data, kg_buf_view(&engine->out));\n"
                "    bool sent = engine->link.write("),
    "message.early": ("engine.c", "    finish_call(&call, message, result);\n",
                      "    finish_call(&call, message, result);\n"
                      '    if (strcmp(message->method, "initialize") == 0)\n'
                      "        engine->link.write(engine->link.data, KG_STR("
                      '"{\\"jsonrpc\\":\\"2.0\\",\\"method\\":\\"whole.noted\\"}\\n"));\n'),
    "notification.declared": ("engine.c", '"method", type);', '"method", "whole.other");'),
    "notification.rate": ("engine.c", "    kg_json_end(&json, '}');\n"
                          "    return is_fit(engine) && send_out(engine);",
                          "    kg_json_end(&json, '}');\n    kg_buf_char(&engine->out, '\\n');\n"
                          "    for (int i = 0; i < 500; i++)\n"
                          "        engine->link.write(engine->link.data, "
                          "kg_buf_view(&engine->out));\n    return true;"),
    "request.known": ("engine.c", '"method", method);', '"method", "kaged.other");'),
    "storage.declared": ("system.c", "engine->has_storage = kaged_json_is_true(json_of("
                         'kg_node_get(params, "storage_available")));',
                         "engine->has_storage = true;"),
    "stream.open": ("stdio.c", "struct stdio_link *stdio, int timeout_ms)\n{\n",
                    "struct stdio_link *stdio, int timeout_ms)\n{\n    static int reads;\n"
                    "    if (++reads > 3) {\n        close(stdio->in);\n        for (;;)\n"
                    "            pause();\n    }\n"),
    "capability.used": ("engine.c", "    struct message answer;\n    if (engine->state",
                        "    struct message answer;\n    if (true)\n"
                        '        return fail(failure, KAGED_INTERNAL, "no");\n    if (engine->state'),
    "notification.used": ("engine.c", "    if (engine->state != ENGINE_OPEN)\n        return false;",
                          "    return true;"),
}

# The same fault shows in methods and in tools.
for table in (PYTHON, SHELL, TS, C):
    for what in ("context", "invalid", "types"):
        table[f"tool.{what}"] = table[f"call.{what}"]

# What no SDK can break: the manifest, the cage and the handlers are the author's.
NOT_OF_AN_SDK = {"answer.internal", "cage.start", "manifest.advice"}
