-- The time in milliseconds, wall and monotonic. ARGV[1] is empty for the server's own clock, or a test's "wall monotonic".
-- Law: the monotonic time grows by what passed and never goes back, whatever is done to the server's clock.
local T = KEYS[1]
local call = redis.call

local function read_clock()
  local c = call('HMGET', T .. 'c', 'a', 'o')
  local last, offset = tonumber(c[1] or 0), tonumber(c[2] or 0)
  if ARGV[1] ~= '' then
    local wall, mono = string.match(ARGV[1], '(%d+) (%d+)')
    return tonumber(wall), tonumber(mono), last, offset
  end
  local t = call('TIME')
  local wall = t[1] * 1000 + math.floor(t[2] / 1000)
  local mono = wall + offset
  if mono < last then
    return wall, last, last, offset + last - mono, true
  end
  return wall, mono, last, offset
end

-- Whether the last sign of life was in another second: however many come, one call in each second finds that.
local function is_new_second(mono, last)
  return math.floor(mono / 1000) > math.floor(last / 1000)
end

-- To be called before the first write. Of the right that locks need each call tells, by a command that changes nothing
-- (servers before 7 can be asked in no other way); all are asked for in the first call of a second, so that another one that
-- goes is missed for as long.
local function check_rights(mono, last)
  call('ZADD', T .. 'a', 'XX', 0, '')
  -- uses: rights
  if is_new_second(mono, last) then check_permitted() end
end

-- Gives a sign of life; one in each second is written, and one for each time that the clock was set back: until it is
-- known by how much, no time passes. `although_full`: also where memory is full (see memory). `exact`: written in any case,
-- by what measures silence and by what comes regularly to end it, for a second is long where locks live for a few. Gives the
-- time, and whether this is the one of its second.
-- Law: no sign of life comes from where no lock could be renewed, be it that the server does not permit it.
local function sign_of_life(although_full, exact)
  local wall, mono, last, offset, was_set_back = read_clock()
  local silence = mono - last
  local is_news = last == 0 or was_set_back or is_new_second(mono, last)
  if although_full then call('DEL', T .. '0') end
  check_rights(mono, last)
  if is_news or exact then
    if last > 0 and silence > tonumber(call('HGET', T .. 'c', 's') or 0) then
      call('HSET', T .. 'c', 's', silence)
    end
    call('HSET', T .. 'c', 'a', mono, 'o', offset)
  end
  return wall, mono, is_news
end
