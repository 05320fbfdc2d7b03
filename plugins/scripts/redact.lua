-- Hides what looks like a key from the model, and tells it what day it is.
-- Shows: transform_context, before_provider_request. Takes: redact = ["context"].
kage.on("transform_context", function(messages)
  for _, message in ipairs(messages) do
    for _, block in ipairs(message.content) do
      if message.role == "user" and block.type == "text" then
        block.text = string.gsub(block.text, "sk%-[%w_-]+", "[a key]")
      end
    end
  end
  return messages
end)

kage.on("before_provider_request", function(request)
  request.system = (request.system or "") .. "\nToday is " .. os.date("%Y-%m-%d") .. "."
  return request
end)
