-- Runs that have not ended and are pinned to a version are counted again and again, so they have an index of their own. No
-- commit touches its columns: a pinned run is written here when it begins and when it ends.
CREATE INDEX run_pins ON run (workflow, version) WHERE version IS NOT NULL AND finished_ms IS NULL;
