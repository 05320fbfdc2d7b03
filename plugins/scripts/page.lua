-- A tool that reads a page of the Internet for the model.
-- Shows: kage.http. Takes: page = ["net"], or page = ["net:example.org"] for one host.
kage.register_tool{
  name = "read", description = "Reads a page by its address, as it is.", risk = "network",
  schema = { type = "object", properties = { url = { type = "string" } }, required = { "url" } },
  execute = function(input)
    local answer = kage.http.get(input.url, { max_bytes = 200000 })
    return { text = answer.body, is_error = answer.status >= 400 }
  end,
}
