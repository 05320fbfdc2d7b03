-- A list that outlives conversations: /todo shows it, /todo TEXT adds to it, /todo-done ticks one off. The model may
-- add to it, too.
-- Shows: kage.register_command with arguments, kage.register_tool, kage.store, kage.ui.select.
local function items()
  return kage.store.get("items") or {}
end

local function add(text)
  local list = items()
  list[#list + 1] = text
  kage.store.set("items", list)
  return #list
end

kage.register_command{
  name = "todo", description = "Shows the list, or adds to it.",
  args = { { name = "text", kind = "text", optional = true } },
  handler = function(_, _, parsed)
    if parsed.text then
      return "noted as " .. add(parsed.text)
    end
    return #items() > 0 and table.concat(items(), "\n") or "nothing to do"
  end,
}

kage.register_command{
  name = "todo-done", description = "Ticks one off.",
  handler = function()
    local list, choices = items(), {}
    for i, text in ipairs(list) do
      choices[i] = { label = text, value = i }
    end
    local chosen = #list > 0 and kage.ui.select("Which one is done?", choices)
    if not chosen then
      return "nothing changed"
    end
    local done = table.remove(list, chosen)
    kage.store.set("items", list)
    return "done: " .. done
  end,
}

kage.register_tool{
  name = "add", description = "Adds one thing to the user's list of things to do.", risk = "write",
  schema = { type = "object", properties = { text = { type = "string" } }, required = { "text" } },
  execute = function(input)
    return "noted as " .. add(input.text)
  end,
}
