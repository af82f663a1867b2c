-- A page of what a run told.
-- KEYS[1] tag. ARGV: clock, id, number after which it begins, limit.
-- Result: `<time>:<fact>` of each.
local after, limit = tonumber(ARGV[3]), tonumber(ARGV[4])
if limit < 1 then return {} end
return redis.call('LRANGE', KEYS[1] .. 'f:' .. ARGV[2], after, after + limit - 1)
