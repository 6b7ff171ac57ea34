-- SENDs to an established queue pair: what causewayd receives at most. Beyond the first pass all are duplicates.
local fine, player = pcall(dofile, (os.getenv("CAUSEWAY_LUA") or ".") .. "/player.lua")
if not fine then
  print("causeway: failed: " .. tostring(player))
  os.exit(1)
end

player.run({ name = "send", rates = "10,25,50,75,100", seconds = 5 })
