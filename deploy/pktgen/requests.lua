-- A flood of connection requests, from few to as many as go.
local fine, player = pcall(dofile, (os.getenv("CAUSEWAY_LUA") or ".") .. "/player.lua")
if not fine then
  print("causeway: failed: " .. tostring(player))
  os.exit(1)
end

player.run({ name = "requests", rates = "0.1,1,10,100", seconds = 5 })
