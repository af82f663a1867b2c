-- Say that the run was made for which a key was kept: it is not to be made again, also when it is gone.
-- KEYS[1] tag. ARGV: clock, id, bucket, the key's digest.
local bucket = KEYS[1] .. 'k:' .. ARGV[3]
local record = redis.call('HGET', bucket, ARGV[4])
if not record or string.sub(record, 29) ~= '?' .. ARGV[2] then return 0 end
redis.call('HSET', bucket, ARGV[4], string.sub(record, 1, 28) .. ARGV[2])
return 1
