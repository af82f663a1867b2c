-- Give the locks of living tokens a full life from now.
-- uses: clock memory
-- KEYS[1] tag. ARGV: clock, ttl, then id, fence, nonce of each token.
-- Result: for each token 0 dead, otherwise 1, and 2 for each message that came, and 1 if a cancellation was requested.
-- Law: a dead token never revives a lock; a living one keeps it although memory is full.
although_full()
local _, mono = sign_of_life()
local answers = {}
for i = 3, #ARGV, 3 do
  local r = call('HMGET', T .. 'r:' .. ARGV[i], 'f', 'k', 'o', 'c')
  if r[1] == ARGV[i + 1] and r[2] == ARGV[i + 2] and r[3] and r[3] ~= '' then
    call('ZADD', T .. 'a', mono + ARGV[2], ARGV[i])
    answers[#answers + 1] = 1 + (r[4] or 0)
  else
    answers[#answers + 1] = 0
  end
end
return answers
