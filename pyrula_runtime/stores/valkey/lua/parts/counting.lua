-- How many runs of the statuses in ARGV (from 2 on) there are: workflow, status, number, and so on, of those that are not
-- zero.
local function count()
  local found = {}
  for _, workflow in ipairs(call('SMEMBERS', T .. 'w')) do
    for i = 2, #ARGV do
      local number = call('ZCARD', T .. 'l:' .. ARGV[i] .. ':' .. workflow)
      if number > 0 then
        found[#found + 1] = workflow; found[#found + 1] = ARGV[i]; found[#found + 1] = number
      end
    end
  end
  return found
end
