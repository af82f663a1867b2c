-- Claims: ARGV from `at` on is a request: incarnation, ttl, status, limit, nonce, lines ('q:…' or 'x:…', their number first).
-- Law: the oldest over all lines, each to one holder, with fence + 1 and a new nonce; who gets less than he asked for is
-- noted as waiting in the same script.
local PAGE = 1000000

local function heads(at, limit)
  local found = {}
  for i = at + 6, at + 5 + tonumber(ARGV[at + 5]) do
    local head = call('ZRANGE', T .. ARGV[i], 0, limit - 1, 'WITHSCORES')
    for j = 1, #head, 2 do
      found[#found + 1] = {tonumber(head[j + 1]), head[j], ARGV[i]}
    end
  end
  if #found > 1 then table.sort(found, function(one, other) return one[1] < other[1] end) end
  return found
end

local function take_one(at, id, line, wall, mono)
  local run = T .. 'r:' .. id
  local r = call('HMGET', run, 'w', 'v', 's', 'n', 'r', 'f', 'b', 'c', 't', 'u', 'x', 'y')
  local owner, status, nonce = ARGV[at], ARGV[at + 2], ARGV[at + 4]
  local length, fence, started = call('LLEN', T .. 'j:' .. id), r[6] + 1, r[10] or wall
  leave_line(id, line)
  call('HSET', run, 's', status, 'r', r[5] + 1, 'f', fence, 'k', nonce, 'o', owner, 'l', length, 'u', started, 'q', '')
  call('ZADD', T .. 'a', mono + ARGV[at + 1], id)
  call('ZADD', T .. 'h:' .. owner, r[4], id)
  relist(id, r[1], r[3], status)
  local entries = length > 0 and page(id, 0, PAGE) or {}
  return {id, fence, nonce, r[1], r[2], call('GET', T .. 'i:' .. id), length, tonumber(r[7] or 0), tonumber(r[9]),
    tonumber(started), r[8] == '1' and 1 or 0, r[11] == '1' and 1 or 0, r[12] or '', entries, wall}
end

local function take(at, wall, mono)
  local limit, taken = tonumber(ARGV[at + 3]), {}
  for _, head in ipairs(heads(at, limit)) do
    if #taken == limit then return taken end
    taken[#taken + 1] = take_one(at, head[2], head[3], wall, mono)
  end
  if #taken < limit then
    call('SADD', T .. 'z', unpack(ARGV, at + 6, at + 5 + tonumber(ARGV[at + 5])))
  end
  return taken
end
