-- Undo for sessions: words and files go back together.
--
--   /undo            to before what you said last; again for the message before
--   /redo            takes the last /undo or /rewind back
--   /rewind          to a message that you choose
--   /rewind-status   what can be undone and redone
--
-- Each shows what would change and asks; "yes" behind it says so beforehand.
--
-- Put this file into scripts/ beside config.toml, and grant there:
--
--   [plugins.capabilities]
--   rewind = ["session_write", "exec"]
--
-- Without exec the words go back, and files stay as they are. Files are kept when a turn begins, in the repository of
-- the session's folder below refs/kaged/, or in kaged's own state where it has none. What is removed or written over
-- by an undo is kept first: /redo has it.
local caps = kage.request_capabilities({ "session_write", "exec" })
if not caps.session_write then
  kage.notify("rewind: disabled (grant session_write)")
  return
end

local files = caps.exec
local warned = false

-- ---- files are kept when a turn begins -----------------------------------------------------------

if files then
  kage.on("agent_start", function()
    local ok, problem = pcall(kage.session.snapshot)
    if not ok and not warned then
      warned = true
      kage.notify("rewind: files are not kept: " .. tostring(problem), "warning")
    end
  end)
end

-- ---- words ---------------------------------------------------------------------------------------

local function short(id)
  return string.sub(id, 1, 8)
end

-- What would change, for a person who has to say yes.
local function describe(plan)
  local lines = {}
  if plan.said then
    lines[#lines + 1] = "gone from here on: " .. plan.said
  end
  if not plan.files then
    lines[#lines + 1] = "files stay as they are"
    return table.concat(lines, "\n")
  end
  for _, change in ipairs(plan.files.changes) do
    lines[#lines + 1] = change.change .. ": " .. change.path
  end
  if plan.files.change_count > #plan.files.changes then
    lines[#lines + 1] = string.format("and %d more files", plan.files.change_count - #plan.files.changes)
  end
  for _, path in ipairs(plan.files.left_out) do
    lines[#lines + 1] = string.format("left alone: %s, %s", path.path, path.why)
  end
  return table.concat(lines, "\n")
end

-- ---- without exec: by fork_to, and words alone ----------------------------------------------------

local function last_user_message()
  local entries = kage.session.entries()
  for i = #entries, 2, -1 do
    if entries[i].role == "user" then
      return entries[i - 1]
    end
  end
end

local function undo_words()
  local target = last_user_message()
  if target == nil then
    return nil
  end
  kage.session.fork_to(target.id)
  return target.id
end

-- ---- commands ------------------------------------------------------------------------------------

local yes = { { name = "yes", kind = "flag" } }

local function nothing(what)
  kage.notify("rewind: nothing to " .. what)
  return "nothing to " .. what
end

-- Asks, and has it done. The daemon moves the session when the command is over.
local function make(act, title, yes, entry)
  local plan, problem = kage.session.plan(act, entry)
  if plan == nil then
    return nil, problem
  end
  if not yes and not kage.ui.confirm(title, describe(plan)) then
    return "cancelled"
  end
  kage.session.rewind(act, entry)
  return plan
end

kage.register_command{
  name = "undo",
  description = "Go back to before what you said last, files too.",
  args = yes,
  handler = function(_, _, parsed)
    if not files then
      local entry = undo_words()
      return entry and "undone to " .. short(entry) or nothing("undo")
    end
    local plan, problem = make("undo", "Undo?", parsed.yes)
    if plan == nil then
      return string.find(problem, "nothing to undo", 1, true) and nothing("undo") or { text = problem, is_error = true }
    end
    return plan == "cancelled" and plan or "undone to " .. short(plan.entry)
  end,
}

kage.register_command{
  name = "redo",
  description = "Take the last undo or rewind back.",
  aliases = { "rewind-redo" },
  args = yes,
  handler = function(_, _, parsed)
    if not files then
      return { text = "/redo needs exec: see the head of rewind.lua", is_error = true }
    end
    local plan, problem = make("redo", "Redo?", parsed.yes)
    if plan == nil then
      return string.find(problem, "nothing to redo", 1, true) and nothing("redo") or { text = problem, is_error = true }
    end
    return plan == "cancelled" and plan or "re-applied"
  end,
}

kage.register_command{
  name = "rewind",
  description = "Go back to a message that you choose.",
  handler = function()
    local items = {}
    for _, entry in ipairs(kage.session.entries()) do
      if entry.role == "user" then
        items[#items + 1] = {
          label = string.format("user  %s  %s", string.sub(entry.ts, 12, 19), short(entry.id)),
          value = entry.id,
        }
      end
    end
    if #items == 0 then
      return nothing("rewind")
    end
    local entry = kage.ui.select("Rewind to", items)
    if entry == nil then
      return "cancelled"
    end
    if not files then
      kage.session.fork_to(entry)
      return "rewound to " .. short(entry)
    end
    local plan, problem = make("rewind", "Rewind?", false, entry)
    if plan == nil then
      return { text = problem, is_error = true }
    end
    return plan == "cancelled" and plan or "rewound to " .. short(entry)
  end,
}

kage.register_command{
  name = "rewind-status",
  description = "What can be undone and redone.",
  aliases = { "undo-status" },
  handler = function()
    local said = 0
    for _, entry in ipairs(kage.session.entries()) do
      said = said + (entry.role == "user" and 1 or 0)
    end
    local redo = files and kage.session.plan("redo") and "yes" or "no"
    return string.format("rewind: %d message(s) to undo, redo: %s, files=%s", said, redo, tostring(files == true))
  end,
}
