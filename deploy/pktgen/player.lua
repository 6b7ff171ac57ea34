-- What the profiles share: plays the capture that is loaded on port 0 (pktgen's option -s), in steps, and prints rates.
--
-- Settings come from the environment, which run.py fills:
--   CAUSEWAY_RATES    steps in percent of what pktgen can send, "10,50,100"
--   CAUSEWAY_SECONDS  length of each step
--   CAUSEWAY_FRAMES   frames in the capture
--   CAUSEWAY_PASSES   instead of steps: so many passes over the capture, and then stop; "0" = steps
-- Lines that begin with "causeway:" are for people; pktgen prints much else.

local player = {}

local port = "0"
local index = 0 -- of the port in what portStats returns

local function say(...)
  print("causeway: " .. string.format(...))
  io.stdout:flush()
end

local function number(name, default)
  local text = os.getenv(name)
  local value = tonumber(text or default)
  if value == nil or value < 0 then
    error(name .. " is '" .. tostring(text) .. "': a number is wanted")
  end
  return math.floor(value)
end

local function rates(default)
  local steps = {}
  for word in string.gmatch(os.getenv("CAUSEWAY_RATES") or default, "[^,]+") do
    local value = tonumber(word)
    if value == nil or value <= 0 or value > 100 then
      error("CAUSEWAY_RATES holds '" .. word .. "': percents from 0.01 to 100 are wanted, joined by ','")
    end
    steps[#steps + 1] = value
  end
  return steps
end

local function sent()
  return pktgen.portStats(port, "port")[index].opackets
end

-- One line a second, so that a stall shows. Returns the mean of pktgen's own rates: a delay of pktgen takes longer than it says, and
-- its counters are a second old at most, so that frames over seconds would promise too much.
local function watch(seconds)
  local sum = 0
  for second = 1, seconds do
    pktgen.delay(1000)
    local now = pktgen.portStats(port, "rate")[index]
    say("  %3d s  tx %d packets/s %d Mbit/s  rx %d packets/s", second, now.pkts_tx, now.mbits_tx, now.pkts_rx)
    sum = sum + now.pkts_tx
  end
  return math.floor(sum / math.max(seconds, 1))
end

local function play_step(rate, seconds)
  say("step %g %%, %d s", rate, seconds)
  pktgen.set(port, "rate", rate)
  local before = sent()
  pktgen.start(port)
  local mean = watch(seconds)
  pktgen.stop(port)
  pktgen.delay(500) -- what is on its way
  local frames = sent() - before
  say("step %g %% sent %d frames, %d packets/s", rate, frames, mean)
end

-- Exactly `frames`, and then silence.
local function play_passes(passes, frames, rate)
  say("%d passes of %d frames", passes, frames)
  pktgen.set(port, "rate", rate)
  pktgen.set(port, "count", passes * frames)
  local before = sent()
  pktgen.start(port)
  local waited = 0
  while sent() - before < passes * frames and waited < 60 do
    pktgen.delay(1000)
    waited = waited + 1
  end
  pktgen.stop(port)
  pktgen.delay(500)
  local done = sent() - before
  say("sent %d frames of %d", done, passes * frames)
  if done ~= passes * frames then
    error("the capture was not played as often as asked")
  end
end

local function play(profile)
  local frames = number("CAUSEWAY_FRAMES", "0")
  local passes = number("CAUSEWAY_PASSES", tostring(profile.passes or 0))
  if frames == 0 then
    error("CAUSEWAY_FRAMES is missing: run.py reads it from the file beside the capture")
  end
  if profile.single_pass and passes ~= 1 then
    say("note: %s", profile.single_pass)
  end
  pktgen.screen("off")
  pktgen.clear(port)
  pktgen.pcap(port, "on")
  pktgen.delay(2000) -- the link comes up
  if passes > 0 then
    play_passes(passes, frames, profile.pass_rate or 100)
    return
  end
  pktgen.set(port, "count", 0)
  local seconds = number("CAUSEWAY_SECONDS", tostring(profile.seconds))
  for _, rate in ipairs(rates(profile.rates)) do
    play_step(rate, seconds)
  end
end

-- Plays and ends the process. Without the exit, and after an error, pktgen would go on for ever.
function player.run(profile)
  say("profile %s", profile.name)
  local fine, problem = pcall(play, profile)
  pcall(function() pktgen.stop(port) end)
  if not fine then
    say("failed: %s", tostring(problem))
    os.exit(1)
  end
  say("done")
  os.exit(0)
end

return player
