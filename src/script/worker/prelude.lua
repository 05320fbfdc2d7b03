-- What a script finds under the name kage, and what the daemon asks of it. All that a script could
-- replace is taken first: from then on it is its own. Nothing in here grants anything: what leaves the
-- process is checked by the daemon, each time.
local host = ...
local error, ipairs, pairs, pcall = error, ipairs, pairs, pcall
local setmetatable, tonumber, tostring, type = setmetatable, tonumber, tostring, type
local yield, running = coroutine.yield, coroutine.running
local format, lower, match, sub = string.format, string.lower, string.match, string.sub
local concat, insert, remove, sort = table.concat, table.insert, table.remove, table.sort
local floor = math.floor
local utf8 = { len = utf8.len, offset = utf8.offset }
local encode, decode, words = host.encode, host.decode, host.words

-- Lua's own runs the handler where the error was raised: inside of the hook that counts instructions, if
-- it was that, and so without being counted.
local function finish(handler, ok, ...)
  if ok then
    return true, ...
  end
  local _, value = pcall(handler, ...)
  return false, value
end
function xpcall(run, handler, ...)
  return finish(handler, pcall(run, ...))
end

local kage = {}
local session = {}      -- what the daemon told of the conversation: id, project, cwd, model
local grants = {}       -- the operator's, by name
local config = "{}"     -- the script's own, as JSON
local script = "script" -- its name
local changed = true    -- the daemon has to hear what is registered
local commands, command_names = {}, {}
local tools, renames = {}, {}
local accepted = {} -- what needs a screen, by name
local problem_of_load -- in words; nil: it was loaded

-- ---- checks ------------------------------------------------------------------------------------

local function raise(form, ...)
  error(format(form, ...), 3)
end

local function want(value, kind, name, what)
  if type(value) ~= kind then
    error(format("%s: %s is a %s, not a %s", name, what, type(value), kind), 3)
  end
  return value
end

local function want_text(value, name, what)
  want(value, "string", name, what)
  if value == "" then
    raise("%s: %s is empty", name, what)
  end
  return value
end

local function optional(value, kind, name, what)
  if value ~= nil then
    want(value, kind, name, what)
  end
  return value
end

local function copy(value)
  return decode(encode(value))
end

-- ---- words -------------------------------------------------------------------------------------

local levels = { trace = "debug", debug = "debug", info = "info", warn = "warn", warning = "warn", error = "error" }

local function log(level, text)
  host.log(levels[level] or "info", text)
end

function kage.log(level, text)
  log(tostring(level), tostring(text))
end

local notice_levels = { info = "info", warn = "warning", warning = "warning", error = "error" }

local function notify(text, level)
  if type(text) == "number" then
    text = tostring(text)
  end
  want(text, "string", "kage.notify", "the message")
  local known = notice_levels[level == nil and "info" or level]
  if known == nil then
    raise("kage.notify: the level is info, warning or error")
  end
  host.tell("script.notice", { text = text, level = known })
  if known ~= "info" then
    log(known, text)
  end
end
kage.notify = notify

-- ---- host --------------------------------------------------------------------------------------

local api_version = 2
kage.now_ms = host.now_ms
kage.sleep_ms = host.sleep_ms

function kage.api_version()
  return api_version
end

function kage.host_version()
  return host.version
end

function kage.requires(wanted)
  want(wanted, "table", "kage.requires", "what is required")
  local least = tonumber(wanted.api) or 0
  if least > api_version then
    raise("kage.requires: this host has API %d, and %s is wanted", api_version, tostring(wanted.api))
  end
end

-- Not by a tail call: the level says in whose line it went wrong.
local function code(call, coder, value)
  local ok, coded = pcall(coder, value)
  if not ok then
    error(format("%s: %s", call, words(coded)), 3)
  end
  return coded
end

kage.json = {}
function kage.json.encode(value)
  local text = code("kage.json.encode", encode, value)
  return text
end
function kage.json.decode(text)
  want(text, "string", "kage.json.decode", "the text")
  local value = code("kage.json.decode", decode, text)
  return value
end

function kage.config()
  local known = host.ask("script.session.config", {})
  return { model = known.model, cwd = session.cwd, system_prompt = known.system_prompt }
end

function kage.plugin_config()
  return decode(config)
end

-- ---- what it keeps ----------------------------------------------------------------------------

kage.store = {}

local function stored(method, sql, ...)
  local made = "CREATE TABLE IF NOT EXISTS store (key TEXT PRIMARY KEY, value TEXT NOT NULL)"
  host.ask("kaged.storage.exec", { sql = made })
  return host.ask("kaged.storage." .. method, { sql = sql, params = { ... } })
end

function kage.store.get(key)
  want(key, "string", "kage.store.get", "the key")
  local row = stored("query", "SELECT value FROM store WHERE key = ?", key).rows[1]
  return row and decode(row.value)
end

function kage.store.set(key, value)
  want(key, "string", "kage.store.set", "the key")
  stored("exec", "INSERT OR REPLACE INTO store VALUES (?, ?)", key, encode(value))
end

function kage.store.delete(key)
  want(key, "string", "kage.store.delete", "the key")
  stored("exec", "DELETE FROM store WHERE key = ?", key)
end

function kage.store.keys()
  local keys = {}
  for i, row in ipairs(stored("query", "SELECT key FROM store ORDER BY key").rows) do
    keys[i] = row.key
  end
  return keys
end

-- ---- capabilities ------------------------------------------------------------------------------

local known_capabilities = {
  session_write = true, exec = true, fs_write = true, context = true,
  provider = true, env = true, net = true, crypto = true,
}
local asked_for = {} -- by name: it was granted, and the script asked for it

-- What takes both, a grant and that the script asks for it. The daemon looks at the grant, and says what is missing.
local function need(name, call)
  if grants[name] and not asked_for[name] then
    error(format('%s: kage.request_capabilities({"%s"}) comes first', call, name), 3)
  end
end

function kage.request_capabilities(names)
  want(names, "table", "kage.request_capabilities", "the list")
  local answer = {}
  for _, name in ipairs(names) do
    if not known_capabilities[name] then
      raise("kage.request_capabilities: there is no capability %s", tostring(name))
    end
    answer[name] = grants[name] == true
    asked_for[name] = answer[name]
  end
  return answer
end

function kage.env(name)
  want_text(name, "kage.env", "the name")
  return host.ask("script.env", { name = name }).value
end

function kage.credential()
  log("info", "kage.credential: no script is given credentials; it gets nil")
  return nil
end

-- ---- the session -------------------------------------------------------------------------------

kage.session = {}

function kage.session.list()
  return host.ask("script.session.list", {}).sessions
end

-- What is written, forked, compacted or said waits for the end of the turn; nothing comes back of it but words in the
-- log, where it could not be done.
function kage.session.fork(at)
  optional(at, "string", "kage.session.fork", "the entry")
  host.ask("script.session.fork", { target = at })
end

function kage.session.set_label(anchor, label)
  want_text(anchor, "kage.session.set_label", "the entry")
  optional(label, "string", "kage.session.set_label", "the label")
  host.ask("script.session.label", { target = anchor, label = label })
end

function kage.session.append_entry(kind, data)
  want_text(kind, "kage.session.append_entry", "the kind")
  optional(data, "table", "kage.session.append_entry", "the data")
  host.ask("script.session.append", { text = encode({ kind = kind, data = data or {} }) })
end

function kage.send_message(text, options)
  need("session_write", "kage.send_message")
  want_text(text, "kage.send_message", "the text")
  options = optional(options, "table", "kage.send_message", "the options") or {}
  local triggers = optional(options.trigger_turn, "boolean", "kage.send_message", "trigger_turn")
  if options.deliver_as ~= nil and options.deliver_as ~= "user" then
    raise("kage.send_message: deliver_as is user")
  end
  host.ask("script.session.message", { text = text, trigger_turn = triggers ~= false })
end

function kage.context_usage()
  return host.ask("script.session.usage", {}).usage
end

function kage.compact(prompt)
  optional(prompt, "string", "kage.compact", "the prompt")
  host.ask("script.session.compact", { text = prompt or "" })
end

-- A move is made by the daemon between turns, when its command is over; the last of several counts.

function kage.session.entries()
  need("session_write", "kage.session.entries")
  return host.ask("script.session.entries", {}).entries
end

function kage.session.fork_to(at)
  need("session_write", "kage.session.fork_to")
  optional(at, "string", "kage.session.fork_to", "the entry")
  host.ask("script.session.fork_to", { target = at })
end

function kage.session.switch(target)
  need("session_write", "kage.session.switch")
  want_text(target, "kage.session.switch", "the session")
  host.ask("script.session.switch", { target = target })
end

-- The files of the session's folder: kept, and made to be those of a snapshot. Beyond kage.
function kage.session.snapshot()
  need("session_write", "kage.session.snapshot")
  need("exec", "kage.session.snapshot")
  return host.ask("script.session.snapshot", {})
end

function kage.session.restore(id, options)
  need("session_write", "kage.session.restore")
  need("exec", "kage.session.restore")
  want_text(id, "kage.session.restore", "the snapshot")
  optional(options, "table", "kage.session.restore", "the options")
  return host.ask("script.session.restore", { id = id, dry_run = options ~= nil and options.dry_run == true })
end

-- undo, redo and rewind of words and files: what each would do, or nil and why not; and that it is to be done.
function kage.session.plan(act, entry)
  need("session_write", "kage.session.plan")
  want_text(act, "kage.session.plan", "what is to be done")
  optional(entry, "string", "kage.session.plan", "the entry")
  local ok, plan = pcall(host.ask, "script.session.rewind", { act = act, target = entry, dry_run = true })
  if ok then
    return plan
  end
  return nil, words(plan)
end

function kage.session.rewind(act, entry)
  need("session_write", "kage.session.rewind")
  want_text(act, "kage.session.rewind", "what is to be done")
  optional(entry, "string", "kage.session.rewind", "the entry")
  host.ask("script.session.rewind", { act = act, target = entry })
end

-- ---- files, programs, hosts ---------------------------------------------------------------------

-- The daemon sends bytes that are no text as KEY_base64.
local function bytes_of(answer, key)
  local coded = answer[key .. "_base64"]
  return coded and host.from_base64(coded) or answer[key]
end

function kage.exec(spec)
  want(spec, "table", "kage.exec", "the program")
  want_text(spec.cmd, "kage.exec", "cmd")
  optional(spec.args, "table", "kage.exec", "args")
  optional(spec.cwd, "string", "kage.exec", "cwd")
  optional(spec.timeout_secs, "number", "kage.exec", "timeout_secs")
  for _, word in ipairs(spec.args or {}) do
    want(word, "string", "kage.exec", "an argument")
  end
  need("exec", "kage.exec")
  local ran = host.ask("script.exec", { cmd = spec.cmd, args = spec.args and #spec.args > 0 and spec.args or nil,
                                        cwd = spec.cwd, timeout_secs = spec.timeout_secs })
  return { code = ran.code, stdout = bytes_of(ran, "stdout"), stderr = bytes_of(ran, "stderr"),
           timed_out = ran.timed_out, truncated = ran.truncated }
end

kage.fs = {}

function kage.fs.read(path)
  want_text(path, "kage.fs.read", "the path")
  local answer = host.ask("script.fs.read", { path = path })
  if answer.content_base64 and not utf8.len(bytes_of(answer, "content")) then
    raise("kage.fs.read: %s is not UTF-8", path)
  end
  return bytes_of(answer, "content")
end

function kage.fs.write(path, bytes)
  want_text(path, "kage.fs.write", "the path")
  want(bytes, "string", "kage.fs.write", "the content")
  host.ask("script.fs.write", { path = path, content_base64 = host.to_base64(bytes) })
end

kage.http = {}

local function fetch(method, url, options)
  local name = "kage.http." .. lower(method)
  want_text(url, name, "the url")
  options = optional(options, "table", name, "the options") or {}
  if options.body ~= nil and options.json ~= nil then
    error(name .. ": there is either body or json", 3)
  end
  local headers = {}
  for key, value in pairs(optional(options.headers, "table", name, "headers") or {}) do
    headers[want(key, "string", name, "a header's name")] = tostring(value)
  end
  local body = options.json ~= nil and encode(options.json) or optional(options.body, "string", name, "body") or ""
  if options.json ~= nil and headers["Content-Type"] == nil and headers["content-type"] == nil then
    headers["Content-Type"] = "application/json"
  end
  local answer = host.ask("script.http", { method = method, url = url, headers = headers,
                                           body_base64 = host.to_base64(body), max_bytes = options.max_bytes,
                                           timeout_secs = options.timeout_secs })
  return { status = answer.status, body = bytes_of(answer, "body"), content_type = answer.content_type,
           truncated = answer.truncated }
end

function kage.http.get(url, options)
  return fetch("GET", url, options)
end
function kage.http.post(url, options)
  return fetch("POST", url, options)
end
function kage.http.delete(url, options)
  return fetch("DELETE", url, options)
end

-- ---- questions to a person ---------------------------------------------------------------------

kage.ui = { notify = notify }

-- Coroutines that serve what somebody waits for, who can be asked.
local askable = setmetatable({}, { __mode = "k" })
local title_max = 2000 -- bytes

function kage.has_ui()
  return askable[running()] == true
end

-- What fits, and ends with a whole character.
local function cut(text)
  if #text <= title_max then
    return text ~= "" and text or "?"
  end
  return sub(text, 1, utf8.offset(text, 0, title_max + 1) - 1)
end

-- The answer: {action, content}, or nil.
local function question(kind, title, schema)
  if not askable[running()] then
    raise("kage.ui.%s: there is nobody to ask from here", kind)
  end
  if host.parked() then
    raise("kage.ui.%s: busy, another question of this script waits for its answer", kind)
  end
  local answer = yield(host.ask_mark, { title = cut(title), schema = schema })
  return type(answer) == "table" and answer or {}
end

-- A form with one field; its value, or nil.
local function ask_one(kind, title, name, field)
  local answer = question(kind, title, { type = "object", properties = { [name] = field }, required = { name } })
  return answer.action == "accept" and type(answer.content) == "table" and answer.content[name] or nil
end

-- Labels for who chooses, each once; what each stands for stays here. Nil: one has no label.
local function choices(items)
  local labels, values, details = {}, {}, {}
  for _, item in ipairs(items) do
    if type(item) == "string" then
      item = { label = item }
    end
    if type(item) ~= "table" or type(item.label) ~= "string" then
      return nil
    end
    local label, count = item.label, 1
    while values[label] ~= nil do
      count = count + 1
      label = format("%s (%d)", item.label, count)
    end
    insert(labels, label)
    values[label] = item.value == nil and item.label or item.value
    if type(item.detail) == "string" then
      insert(details, label .. ": " .. item.detail)
    end
  end
  return labels, values, details
end

function kage.ui.select(title, items)
  want(title, "string", "kage.ui.select", "the title")
  want(items, "table", "kage.ui.select", "the items")
  local labels, values, details = choices(items)
  if labels == nil or #labels == 0 then
    notify(format("%s: a choice has no label, or there is none", title), "error")
    return nil
  end
  local field = { type = "string", enum = labels }
  if #details > 0 then
    field.description = concat(details, "; ")
  end
  return values[ask_one("select", title, "choice", field)]
end

function kage.ui.confirm(title, message)
  want(title, "string", "kage.ui.confirm", "the title")
  want(message, "string", "kage.ui.confirm", "the message")
  local words = message ~= "" and title .. ": " .. message or title
  return question("confirm", words, { type = "object" }).action == "accept"
end

function kage.ui.input(title, placeholder)
  want(title, "string", "kage.ui.input", "the title")
  optional(placeholder, "string", "kage.ui.input", "the placeholder")
  return ask_one("input", title, "text", { type = "string", description = placeholder })
end

function kage.ui.editor(title, prefill)
  want(title, "string", "kage.ui.editor", "the title")
  optional(prefill, "string", "kage.ui.editor", "the prefill")
  return ask_one("editor", title, "text", { type = "string", default = prefill })
end

-- ---- commands ----------------------------------------------------------------------------------

local truths = { ["true"] = true, yes = true, on = true, ["1"] = true,
                 ["false"] = false, no = false, off = false, ["0"] = false }
local argument_kinds = { text = true, choice = true, path = true, session = true, flag = true }

local function check_arguments(list, name)
  for _, argument in ipairs(optional(list, "table", name, "args") or {}) do
    want(argument, "table", name, "an argument")
    want_text(argument.name, name, "an argument's name")
    if not argument_kinds[argument.kind] then
      raise("%s: there is no kind of argument %s", name, tostring(argument.kind))
    end
    if argument.kind == "choice" and (type(argument.choices) ~= "table" or #argument.choices == 0) then
      raise("%s: argument %s has no choices", name, argument.name)
    end
  end
  return list or {}
end

local function register_command(spec, name)
  want(spec, "table", name, "the command")
  local command = {
    name = want_text(spec.name, name, "name"),
    description = want(spec.description, "string", name, "description"),
    handler = want(spec.handler, "function", name, "handler"),
    arguments = check_arguments(spec.args, name),
    aliases = {},
  }
  for _, alias in ipairs(optional(spec.aliases, "table", name, "aliases") or {}) do
    insert(command.aliases, want_text(alias, name, "an alias"))
  end
  if command_names[command.name] then
    log("warn", format("command %s is registered already", command.name))
    return
  end
  insert(commands, command)
  command_names[command.name] = command
  for _, alias in ipairs(command.aliases) do
    command_names[alias] = command_names[alias] or command
  end
  changed = true
end

function kage.register_command(spec)
  register_command(spec, "kage.register_command")
end
function kage.override_command(spec)
  register_command(spec, "kage.override_command")
end

local function has(list, value)
  for _, item in ipairs(list) do
    if item == value then
      return true
    end
  end
  return false
end

-- The value of one argument and what is left of the line; or nil, the line, and what is wrong.
local function parse_one(argument, rest)
  if argument.kind == "text" then
    local text = match(rest, "^%s*(.-)%s*$")
    return text ~= "" and text or nil, ""
  end
  local token, after = match(rest, "^%s*(%S+)(.*)$")
  if token == nil then
    return nil, rest
  end
  if argument.kind == "flag" then
    local truth = truths[lower(token)]
    if truth == nil then
      return nil, rest, format("arg `%s` is yes or no", argument.name)
    end
    return truth, after
  end
  if argument.kind == "choice" and not has(argument.choices, token) then
    return nil, rest, format("arg `%s` is one of %s", argument.name, encode(argument.choices))
  end
  return token, after
end

local function parse_arguments(command, raw)
  local parsed, rest = {}, raw
  for _, argument in ipairs(command.arguments) do
    local value, after, problem = parse_one(argument, rest)
    if problem then
      return nil, format("%s: %s", command.name, problem)
    end
    if value == nil and not argument.optional and argument.kind ~= "flag" then
      return nil, format("%s: missing required arg `%s`", command.name, argument.name)
    end
    parsed[argument.name], rest = value, after
  end
  return parsed
end

-- What a command or a tool returned, as {text, is_error, structured}.
local function shown(value)
  if value == nil then
    return { text = "" }
  elseif type(value) == "string" then
    return { text = value }
  elseif type(value) ~= "table" then
    return { text = tostring(value) }
  elseif value.text == nil then
    return { text = encode(value), structured = value }
  end
  return { text = tostring(value.text), is_error = value.is_error == true or nil, structured = value.structured }
end

local function failed(form, ...)
  return { text = format(form, ...), is_error = true }
end

local dispatch = {}

function dispatch.command(params)
  askable[running()] = true
  local command = command_names[params.name]
  if command == nil then
    return failed("there is no command %s", tostring(params.name))
  end
  if host.parked() then
    return failed("%s: busy, a question of this script waits for its answer", command.name)
  end
  local parsed, problem = parse_arguments(command, params.args or "")
  if parsed == nil then
    return failed("%s", problem)
  end
  local ok, value = pcall(command.handler, params.args or "", nil, parsed)
  if not ok then
    log("error", format("command %s: %s", command.name, words(value)))
    return failed("plugin command %s: %s", command.name, words(value))
  end
  return shown(value)
end

-- ---- tools -------------------------------------------------------------------------------------

local risks = { read = true, write = true, exec = true, network = true }

local function register_tool(spec, name, overrides)
  want(spec, "table", name, "the tool")
  local tool = {
    name = want_text(spec.name, name, "name"),
    description = want(spec.description, "string", name, "description"),
    execute = want(spec.execute, "function", name, "execute"),
    risk = spec.risk or "read",
    overrides = overrides,
  }
  if not risks[tool.risk] then
    raise("%s: the risk is read, write, exec or network", name)
  end
  if not match(tool.name, "^[A-Za-z0-9_-]+$") then
    raise("%s: a name has letters, digits, - and _ alone", name)
  end
  local ok, schema = pcall(copy, spec.schema)
  if ok and type(schema) == "table" and (schema.type == nil or schema.type == "object") then
    tool.schema = schema
  end
  tools[tool.name] = tool
  changed = true
end

function kage.register_tool(spec)
  register_tool(spec, "kage.register_tool")
end
function kage.override_tool(spec)
  register_tool(spec, "kage.override_tool", true)
end

-- A model sees the tool under another name; "from" is what it is offered as, or a tool of this script.
function kage.rename_tool(spec)
  want(spec, "table", "kage.rename_tool", "the names")
  local rename = { from = want_text(spec.from, "kage.rename_tool", "from"),
                   to = want_text(spec.to, "kage.rename_tool", "to") }
  if not match(rename.to, "^[A-Za-z0-9_-]+$") or #rename.to > 64 then
    raise("kage.rename_tool: a name has letters, digits, - and _ alone, and at most 64 of them")
  end
  for i, other in ipairs(renames) do
    if other.from == rename.from then
      remove(renames, i)
      break
    end
  end
  insert(renames, rename)
  changed = true
end

function dispatch.tool(params)
  askable[running()] = true
  local tool = tools[params.name]
  if tool == nil then
    return failed("there is no tool %s", tostring(params.name))
  end
  local ok, value = pcall(tool.execute, params.input or {})
  if not ok then
    log("error", format("tool %s: %s", tool.name, words(value)))
    return failed("%s", words(value))
  end
  return shown(value)
end

-- ---- events ------------------------------------------------------------------------------------

-- How each is answered: by nothing, by another value, by a yes or no, by a veto, by a verdict on a call.
local events = {
  agent_start = "notify", agent_end = "notify", before_agent_start = "notify",
  turn_start = "notify", turn_end = "notify", message_end = "notify", after_provider_response = "notify",
  message_start = "notify", message_update = "notify", tool_update = "notify", model_select = "notify",
  tool_result = "notify", tool_call = "verdict",
  transform_context = "transform", before_provider_request = "transform", compact_prepare = "transform",
  should_stop_after_turn = "stop", session_before_switch = "veto", session_before_fork = "veto",
}
-- Known, and never told: what they are about does not happen here.
local never = {
  thinking_level_select = true, permission_mode_select = true, user_bash = true, user_shell = true, option_set = true,
  color_scheme = true, user = true, resources_discover = true,
}
local needs_context = { transform_context = true, before_provider_request = true, before_agent_start = true,
                        compact_prepare = true, message_update = true }
local handlers = {} -- by event, in the order of registration
local nothing = function() end

function kage.on(event, handler)
  want(handler, "function", "kage.on", "the handler")
  if events[event] == nil then
    log("warn", format(never[event] and "kage.on: %s is never told: nothing here is like it" or "kage.on: there is no event %s",
                       tostring(event)))
    return nothing
  end
  if needs_context[event] and not grants.context then
    log("warn", format('kage.on: %s needs [plugins.capabilities] %s = ["context"] in config.toml', event, script))
  end
  local entry = { handler = handler }
  handlers[event] = handlers[event] or {}
  insert(handlers[event], entry)
  changed = true
  return function()
    for i, other in ipairs(handlers[event]) do
      if other == entry then
        remove(handlers[event], i)
        changed = true
      end
    end
    entry.off = true
  end
end

-- Each handler gets a copy of its own of the value, as JSON. False: there is none, or it raised.
local function call_handler(event, entry, text)
  if entry.off then
    return false
  end
  local ok, value = pcall(entry.handler, decode(text))
  if not ok then
    log("error", format("plugin handler for '%s' from '%s' raised: %s", event, script, words(value)))
  end
  return ok, value
end

local answer = {}

function answer.notify(event, list, text)
  for _, entry in ipairs(list) do
    call_handler(event, entry, text)
  end
end

function answer.transform(event, list, text)
  local before = text
  for _, entry in ipairs(list) do
    local ok, value = call_handler(event, entry, text)
    if ok and value ~= nil then
      local writes, written = pcall(encode, value)
      if writes then
        text = written
      else
        log("error", format("plugin handler for '%s': what it returned cannot be used: %s", event, words(written)))
      end
    end
  end
  return text ~= before and { value = decode(text) } or nil
end

function answer.stop(event, list, text)
  for _, entry in ipairs(list) do
    local ok, value = call_handler(event, entry, text)
    if ok and value == true then
      return { stop = true }
    end
  end
end

function answer.veto(event, list, text)
  for _, entry in ipairs(list) do
    local ok, value = call_handler(event, entry, text)
    if ok and type(value) == "table" and type(value.cancel) == "string" then
      return { cancel = value.cancel }
    elseif ok and type(value) == "table" and type(value.patch) == "string" then
      return { patch = value.patch }
    end
  end
end

-- The input of one is what the next sees; who blocks ends it.
function answer.verdict(event, list, text)
  local input
  for _, entry in ipairs(list) do
    local ok, value = call_handler(event, entry, text)
    if ok and type(value) == "table" then
      if type(value.block) == "string" or value.block == true then
        return { block = value.block == true and (value.reason or "blocked by a script") or value.block }
      elseif type(value.input) == "table" then
        local call = decode(text)
        call.input = value.input
        local writes, written = pcall(encode, call)
        if writes then
          text, input = written, value.input
        end
      end
    end
  end
  return input and { input = input } or nil
end

function dispatch.event(params)
  askable[running()] = true
  local list = {}
  for i, entry in ipairs(handlers[params.event] or {}) do
    list[i] = entry
  end
  local kind = events[params.event]
  return kind and answer[kind](params.event, list, encode(params.data)) or {}
end

-- ---- timers ------------------------------------------------------------------------------------

local timers = {} -- {due, every or nil, run}
local interval_least_ms = 50

local function drop_timer(timer)
  for i, other in ipairs(timers) do
    if other == timer then
      remove(timers, i)
    end
  end
end

local function add_timer(run, after_ms, every_ms)
  if #timers >= host.timers_max then
    raise("kage.timer: a script has at most %d timers", host.timers_max)
  end
  local timer = { due = host.monotonic_ms() + after_ms, every = every_ms, run = run }
  insert(timers, timer)
  return function()
    timer.every = nil
    drop_timer(timer)
  end
end

function kage.schedule(run)
  want(run, "function", "kage.schedule", "what is scheduled")
  add_timer(run, 0)
end

function kage.defer(run, ms)
  want(run, "function", "kage.defer", "what is deferred")
  want(ms, "number", "kage.defer", "the time")
  return add_timer(run, ms > 0 and ms // 1 or 0)
end

function kage.timer(run, ms)
  want(run, "function", "kage.timer", "what is repeated")
  want(ms, "number", "kage.timer", "the interval")
  local every = ms > interval_least_ms and ms // 1 or interval_least_ms
  return add_timer(run, every, every)
end

local function first_timer()
  local first
  for _, timer in ipairs(timers) do
    if first == nil or timer.due < first.due then
      first = timer
    end
  end
  return first
end

function dispatch.timer()
  local timer, now = first_timer(), host.monotonic_ms()
  if timer == nil or timer.due > now then
    return
  end
  drop_timer(timer) -- past its budget nothing below is reached, and it is not tried again
  local ok, problem = pcall(timer.run)
  if not ok then
    log("error", format("a timer of '%s' raised: %s", script, words(problem)))
  elseif timer.every then
    timer.due = now + timer.every
    insert(timers, timer)
  end
end

-- ---- what needs a screen -----------------------------------------------------------------------

-- Accepted, listed and told once in the log: a script that draws runs here, too.
local function accept(name, result)
  return function()
    if not accepted[name] then
      accepted[name] = true
      changed = true
      log("info", format("%s needs a screen: it is accepted, and shows nothing", name))
    end
    return result
  end
end

local function accept_all(table_name)
  return setmetatable({}, {
    __metatable = false,
    __index = function(_, key)
      return accept(format("kage.%s.%s", table_name, tostring(key)))
    end,
  })
end

for _, name in ipairs({ "set_header", "set_footer", "set_slot" }) do
  kage.ui[name] = accept("kage.ui." .. name)
end
kage.http.post_stream = accept("kage.http.post_stream", {})
for _, name in ipairs({ "register_widget", "set_status", "clear_status", "register_block_renderer",
                        "add_autocomplete_provider", "register_provider", "provider_error", "on_acp_permission" }) do
  kage[name] = accept("kage." .. name)
end
for _, name in ipairs({ "register_keybinding", "on_terminal_input" }) do
  kage[name] = accept("kage." .. name, nothing)
end
for _, name in ipairs({ "api", "opt", "keymap", "theme", "action", "crypto", "acp", "mcp" }) do
  kage[name] = accept_all(name)
end

-- ---- loading -----------------------------------------------------------------------------------

_G.kage = kage

function dispatch.load(params)
  script, config = params.name, encode(params.config or {})
  session, grants = params.session or {}, params.grants or {}
  local chunk, problem = host.load(params.source, script)
  if chunk ~= nil then
    problem_of_load, changed = "the script exceeded its CPU budget", true -- past that nothing below is reached
    local ok, raised = pcall(chunk)
    problem = not ok and words(raised) or nil
  end
  problem_of_load, changed = problem, true
  return { error = problem }
end

-- The session, the grants or the configuration are others now.
function dispatch.update(params)
  session = params.session or session
  config = params.config and encode(params.config) or config
end

-- ---- what C asks -------------------------------------------------------------------------------

local function keys(of)
  local list = {}
  for key in pairs(of) do
    insert(list, key)
  end
  sort(list)
  return list
end

local function subscribed()
  local list = {}
  for _, event in ipairs(keys(handlers)) do
    if #handlers[event] > 0 and (grants.context or not needs_context[event]) then
      insert(list, event)
    end
  end
  return list
end

local function list_tools()
  local list = {}
  for _, name in ipairs(keys(tools)) do
    local tool = tools[name]
    insert(list, { name = name, description = tool.description, schema = tool.schema, risk = tool.risk,
                   overrides = tool.overrides })
  end
  return list
end

local function list_commands()
  local list = {}
  for _, command in ipairs(commands) do
    insert(list, { name = command.name, description = command.description, aliases = #command.aliases > 0 and
      command.aliases or nil })
  end
  return list
end

return {
  dispatch = function(method, params)
    local run = dispatch[method]
    if run == nil then
      error("there is no such method")
    end
    return run(params)
  end,
  registered = function()
    if not changed then
      return nil
    end
    changed = false
    local some = { events = subscribed(), tools = list_tools(), renames = renames, commands = list_commands(),
                   screen = keys(accepted) }
    for name, list in pairs(some) do
      if #list == 0 then
        some[name] = nil
      end
    end
    some.problem = problem_of_load
    return some
  end,
  due = function()
    local first = first_timer()
    if first == nil then
      return nil
    end
    local ms = first.due - host.monotonic_ms()
    return ms > 0 and (ms < 60000 and floor(ms) or 60000) or 0
  end,
}
