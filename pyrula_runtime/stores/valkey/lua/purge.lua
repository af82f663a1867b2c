-- Drop idempotency records and settled events whose time is over.
-- uses: clock memory
-- KEYS[1] tag. ARGV: clock, limit of records, limit of events.
-- Result: {how many records went, how many events, 1 if as many entries of lists as records may go were looked at}.
-- Law: records of one time to live expire in the order of their list; an entry whose record was written anew is only
-- struck off the list, and counts for the limit like any other.
although_full()
local wall = sign_of_life()
local limit, looked, gone = tonumber(ARGV[2]), 0, 0

local function drop(entry)
  local key, over = string.sub(entry, 1, 16), string.sub(entry, 17)
  local bucket = T .. 'k:' .. string.format('%02x%02x', string.byte(key, 1, 2))
  local record = call('HGET', bucket, key)
  if record and string.sub(record, 17, 28) == over then gone = gone + call('HDEL', bucket, key) end
end

local function drop_over(ttl)
  local list = T .. 'kl:' .. ttl
  while looked < limit do
    local entry = call('LINDEX', list, 0)
    if not entry then return call('SREM', T .. 'kt', ttl) end
    if tonumber(string.sub(entry, 17), 16) > wall then return end
    call('LPOP', list)
    looked = looked + 1
    drop(entry)
  end
end

for _, ttl in ipairs(call('SMEMBERS', T .. 'kt')) do drop_over(ttl) end
local settled = call('ZRANGEBYSCORE', T .. 'ex', '-inf', wall, 'LIMIT', 0, ARGV[3])
for _, event in ipairs(settled) do
  call('ZREM', T .. 'ex', event)
  call('DEL', T .. 'e:' .. string.sub(event, 12))
end
return {gone, #settled, looked == limit and 1 or 0}
