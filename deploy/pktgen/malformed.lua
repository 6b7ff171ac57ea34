-- One frame of every kind that is refused. By default one pass, whose counts are known to the frame.
local fine, player = pcall(dofile, (os.getenv("CAUSEWAY_LUA") or ".") .. "/player.lua")
if not fine then
  print("causeway: failed: " .. tostring(player))
  os.exit(1)
end

player.run({
  name = "malformed",
  rates = "1,10,100",
  seconds = 5,
  passes = 1,
  pass_rate = 1,
  single_pass = "a capture made for a queue pair counts as written for one pass only",
})
