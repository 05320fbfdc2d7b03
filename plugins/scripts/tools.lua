-- A tool with a plain name for the model, in place of script__tool: it counts the words of a text.
-- Shows: kage.register_tool with a schema, kage.rename_tool. kage.override_tool takes what register_tool does, and the
-- place of a plugin's tool by the name that the model is offered it as.
kage.register_tool{
  name = "words", description = "Counts the words of a text.", risk = "read",
  schema = { type = "object", properties = { text = { type = "string" } }, required = { "text" } },
  execute = function(input)
    local count = select(2, string.gsub(input.text, "%S+", ""))
    return { text = tostring(count), structured = { words = count } }
  end,
}
kage.rename_tool{ from = "words", to = "count_words" }
