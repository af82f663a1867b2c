-- The newest ids of each listing asked for; who asks merges them.
-- uses: clock
-- KEYS[1] tag. ARGV: clock, workflow ('' all), upper bound of ids, limit, statuses.
-- Result: one list of ids for each pair of workflow and status, newest first.
local workflows, lists = {ARGV[2]}, {}
if ARGV[2] == '' then workflows = call('SMEMBERS', T .. 'w') end
for _, workflow in ipairs(workflows) do
  for i = 5, #ARGV do
    lists[#lists + 1] = call('ZREVRANGEBYLEX', T .. 'l:' .. ARGV[i] .. ':' .. workflow, ARGV[3], '-', 'LIMIT', 0, ARGV[4])
  end
end
return lists
