-- Records of idempotency keys: 16 bytes of the input's digest, 12 digits of the end of its life, the run's id, after a '?'
-- as long as nobody has said that the run was made, in another shard.
-- Law: one living record per key and namespace; a key is placed by the number of shards, so a shard that has heard of
-- another number than the caller's keeps no key for him.
local function is_displaced(count)
  if not count or count == '' then return false end
  local known = call('HGET', T .. 'c', 'n')
  return known and known ~= count
end

-- What the living record of a key says, nil if there is none.
local function answered_by(bucket, key, same, wall)
  local record = call('HGET', T .. 'k:' .. bucket, key)
  if record and tonumber(string.sub(record, 17, 28), 16) > wall then
    local is_made = string.sub(record, 29, 29) ~= '?'
    local what = string.sub(record, 1, 16) ~= same and 'conflict' or is_made and 'existing' or 'unmade'
    return {what, string.sub(record, is_made and 29 or 30)}
  end
end

local function keep_key(bucket, key, same, ttl, wall, id)
  local over = string.format('%012x', wall + ttl)
  call('HSET', T .. 'k:' .. bucket, key, same .. over .. id)
  call('RPUSH', T .. 'kl:' .. ttl, key .. over)
  call('SADD', T .. 'kt', ttl)
end
