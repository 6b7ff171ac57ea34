-- Other traffic of a LAN, to run beside a real load: a little all the time.
local fine, player = pcall(dofile, (os.getenv("CAUSEWAY_LUA") or ".") .. "/player.lua")
if not fine then
  print("causeway: failed: " .. tostring(player))
  os.exit(1)
end

player.run({ name = "noise", rates = "1,5,10", seconds = 20 })
