-- Tells which branch of git a run begins on, and has /changes, which shows what is not committed.
-- Shows: kage.fs.read, kage.exec, kage.request_capabilities. Takes, for /changes: branch = ["exec:git"].
local caps = kage.request_capabilities({ "exec" })

kage.on("agent_start", function()
  local ok, head = pcall(kage.fs.read, ".git/HEAD")
  if ok then
    kage.notify("git: " .. (string.match(head, "ref: refs/heads/(%S+)") or string.sub(head, 1, 8) .. " (detached)"))
  end
end)

if caps.exec then
  kage.register_command{
    name = "changes", description = "What is not committed.",
    handler = function()
      local ran = kage.exec({ cmd = "git", args = { "status", "--short" } })
      return ran.code == 0 and (ran.stdout ~= "" and ran.stdout or "nothing") or { text = ran.stderr, is_error = true }
    end,
  }
end
