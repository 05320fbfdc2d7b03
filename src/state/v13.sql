-- Scripts that the operator grants powers, by the file that he saw: another one has none of them.

CREATE TABLE script_grant (
    script TEXT PRIMARY KEY,      -- the name of its file
    hash   TEXT NOT NULL          -- "sha256:...", of that file
) STRICT, WITHOUT ROWID;
