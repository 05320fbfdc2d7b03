-- Prompts of projects, in files that a plugin could write: what they were when the operator's word took
-- them. One that is another when the daemon starts waits for a yes.

CREATE TABLE project_prompt (
    project TEXT NOT NULL,
    path    TEXT NOT NULL,        -- below the project's root
    hash    TEXT NOT NULL,
    PRIMARY KEY (project, path)
) STRICT, WITHOUT ROWID;
