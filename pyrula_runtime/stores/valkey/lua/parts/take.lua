-- Claims: ARGV from `at` on is a request: incarnation, ttl, status, limit, nonce, lines ('q:…' or 'x:…', their number first).
-- A claim: id, fence, nonce, name of the line, input, length and bytes of the journal, created, started, cancel requested
-- and messages that came (see append), suspect, dossier, entries, now; then perhaps what few runs have (see births),
-- messages that are not consumed; false for those that there was no room for.
-- Law: the first by place over all lines, each to one holder, with fence + 1 and a new nonce; who gets less than he asked
-- for is noted as waiting in the same script. Journals and messages of all that are taken are at most a page together, and
-- one entry and one message more; the rest is to be read.
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

local function take_one(at, id, line, wall, mono, room)
  local run = T .. 'r:' .. id
  local r = call('HMGET', run, 'w', 's', 'n', 'r', 'f', 'b', 'c', 't', 'u', 'x', 'y', 'i')
  local owner, status, nonce = ARGV[at], ARGV[at + 2], ARGV[at + 4]
  local length, fence, started = r[6] and call('LLEN', T .. 'j:' .. id) or 0, r[5] + 1, r[9] or wall
  leave_line(id, line)
  call('HSET', run, 's', status, 'r', r[4] + 1, 'f', fence, 'k', nonce, 'o', owner, 'l', length, 'u', started, 'q', '')
  call('ZADD', T .. 'a', mono + ARGV[at + 1], id)
  call('ZADD', T .. 'h:' .. owner, r[3], id)
  relist(id, r[2], status, r[1], r[12])
  local entries, came = length > 0 and room > 0 and page(id, 0, room) or {}, tonumber(r[7] or 0)
  for _, entry in ipairs(entries) do room = room - #entry end
  local taken = {id, fence, nonce, r[1], call('GET', T .. 'i:' .. id), length, tonumber(r[6] or 0), tonumber(r[8]),
    tonumber(started), came, r[10] == '1' and 1 or 0, r[11] or '', entries, wall}
  if came > 1 then
    -- uses: letters
    taken[15], taken[16] = r[12], false
    if room > 0 then
      local size
      taken[16], size = letters(id, 0, room)
      room = room - size
    end
  elseif r[12] then
    taken[15], taken[16] = r[12], {}
  end
  return taken, room
end

local function take(at, wall, mono)
  local limit, taken, room = tonumber(ARGV[at + 3]), {}, PAGE
  for _, head in ipairs(heads(at, limit)) do
    if #taken == limit then return taken end
    taken[#taken + 1], room = take_one(at, head[2], head[3], wall, mono, room)
  end
  if #taken < limit then
    call('SADD', T .. 'z', unpack(ARGV, at + 6, at + 5 + tonumber(ARGV[at + 5])))
  end
  return taken
end
