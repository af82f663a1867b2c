-- The newest ids of each listing asked for; who asks merges them.
-- uses: clock
-- KEYS[1] tag. ARGV: clock, workflow ('' all), whose runs ('lp' of a parent, 'lf' of a schedule, '' of anybody), id of that,
-- upper bound of ids, limit, statuses.
-- Result: one list of ids for each status and, for runs of anybody, workflow, newest first.
local _, workflow, kin, whose, bound, limit = unpack(ARGV, 1, 6)
limit = tonumber(limit)
local lists = {}

local function newest(listing, from, most)
  return call('ZREVRANGEBYLEX', T .. listing, from, '-', 'LIMIT', 0, most)
end

-- Those of a listing that are of the workflow, pinned or not: of few, since a parent or schedule rarely has runs of
-- several.
local function chosen(listing)
  local found, from = {}, bound
  while true do
    local some = newest(listing, from, 100)
    for _, id in ipairs(some) do
      local name = call('HGET', T .. 'r:' .. id, 'w') or ''
      if string.match(name, '^[^|]*') == workflow then found[#found + 1] = id end
      if #found >= limit then return found end
    end
    if #some < 100 then return found end
    from = '(' .. some[100]
  end
end

if kin ~= '' then
  for at = 7, #ARGV do
    local listing = kin .. ':' .. ARGV[at] .. ':' .. whose
    lists[#lists + 1] = workflow == '' and newest(listing, bound, limit) or chosen(listing)
  end
  return lists
end
local workflows = workflow == '' and call('SMEMBERS', T .. 'w') or {workflow}
for _, each in ipairs(workflows) do
  for at = 7, #ARGV do lists[#lists + 1] = newest('l:' .. ARGV[at] .. ':' .. each, bound, limit) end
end
return lists
