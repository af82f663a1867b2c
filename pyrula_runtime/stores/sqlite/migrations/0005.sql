-- Which runs have ended, by how and when, so that those whose time is over are found by a search.
CREATE INDEX run_finished ON run (status, finished_ms) WHERE finished_ms IS NOT NULL;
