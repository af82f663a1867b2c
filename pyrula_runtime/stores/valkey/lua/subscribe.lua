-- Say which events start this version of a workflow, instead of those before.
-- uses: clock
-- KEYS[1] tag. ARGV: clock, workflow, version ('' none), how many deferred events may be taken over now, names.
-- Result: 1 if deferred events are left to be taken over, 0 if not.
-- Law: who says nothing new writes nothing; deferred events of a name go to the first who want it, some with each call.
local _, workflow, version, left = unpack(ARGV, 1, 4)
local subscriber, names, is_news = workflow .. '|' .. version, T .. 'ew:' .. workflow .. '|' .. version, false
left = tonumber(left)
local gone = {}
for _, name in ipairs(call('SMEMBERS', names)) do gone[name] = true end
for at = 5, #ARGV do
  local name = ARGV[at]
  is_news = is_news or not gone[name] or call('EXISTS', T .. 'ed:' .. name) == 1
  gone[name] = nil
end
if not (is_news or next(gone)) then return 0 end
sign_of_life()
for name in pairs(gone) do
  call('SREM', names, name)
  call('SREM', T .. 'en:' .. name, subscriber)
end

for at = 5, #ARGV do
  call('SADD', names, ARGV[at])
  call('SADD', T .. 'en:' .. ARGV[at], subscriber)
end

local function take_over(name)
  local deferred = call('ZRANGE', T .. 'ed:' .. name, 0, left - 1, 'WITHSCORES')
  for at = 1, #deferred, 2 do
    call('ZREM', T .. 'ed:' .. name, deferred[at])
    call('HSET', T .. 'e:' .. deferred[at], 'w', '|' .. workflow .. '|')
    call('ZADD', T .. 'ep:' .. workflow, deferred[at + 1], deferred[at])
    left = left - 1
  end
  if #deferred > 0 then call('PUBLISH', T .. 'timer', '') end
end

local is_left = 0
for at = 5, #ARGV do
  if left > 0 then take_over(ARGV[at]) end
  is_left = math.max(is_left, call('EXISTS', T .. 'ed:' .. ARGV[at]))
end
return is_left
