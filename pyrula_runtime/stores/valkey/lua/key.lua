-- Look a key up, or keep it for a run that is about to be created in another shard.
-- uses: clock keys
-- KEYS[1] tag. ARGV: clock, id ('' only look), bucket, the key's digest, the input's digest (16 bytes), ttl, number of
-- shards by which it was placed.
-- Result: {'free' | 'existing' | 'unmade' | 'conflict' | 'moved', id of the run that answers}.
local wall = sign_of_life()
local _, id, bucket, key, same, ttl, count = unpack(ARGV)
if is_displaced(count) then return {'moved', ''} end
local answer = answered_by(bucket, key, same, wall)
if answer then return answer end
if id ~= '' then keep_key(bucket, key, same, ttl, wall, '?' .. id) end
return {'free', ''}
