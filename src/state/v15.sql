-- Orgs, who there is, and who is a member of which org. Tokens may belong to a principal, and then have what
-- his roles have.

CREATE TABLE org (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    domain     TEXT UNIQUE,           -- lower case; NULL: it has none
    active     INTEGER NOT NULL CHECK (active IN (0, 1)),
    deleted    INTEGER NOT NULL CHECK (deleted IN (0, 1)),
    profile    TEXT NOT NULL,         -- JSON: display_name, description, ...
    settings   TEXT NOT NULL,         -- JSON, the org's own
    quota      TEXT NOT NULL,         -- JSON: max_members, ...
    created_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE principal (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    email      TEXT,
    sys_admin  INTEGER NOT NULL CHECK (sys_admin IN (0, 1)),
    created_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE org_member (
    org        TEXT NOT NULL,
    principal  TEXT NOT NULL,
    is_admin   INTEGER NOT NULL CHECK (is_admin IN (0, 1)),
    created_ms INTEGER NOT NULL,
    PRIMARY KEY (org, principal)
) STRICT, WITHOUT ROWID;

ALTER TABLE credential ADD COLUMN principal TEXT; -- NULL: it is the operator's own

-- Versions of packages. Their bytes are objects, which are elsewhere, by their hash.
CREATE TABLE package (
    id          TEXT PRIMARY KEY,
    org         TEXT NOT NULL,        -- '': the system's
    pid         TEXT NOT NULL,
    version     TEXT NOT NULL,
    object      TEXT NOT NULL,        -- SHA-256 of what was uploaded
    bytes       INTEGER NOT NULL,
    enabled     INTEGER NOT NULL CHECK (enabled IN (0, 1)),
    is_latest   INTEGER NOT NULL CHECK (is_latest IN (0, 1)),
    card        TEXT NOT NULL,        -- JSON: what is shown of it
    document    TEXT NOT NULL,        -- JSON: what its discovery found
    uploaded_by TEXT,
    created_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX package_version ON package (org, pid, version);
CREATE UNIQUE INDEX package_latest ON package (org, pid) WHERE is_latest = 1;

-- Settings of packages that an org has set for all that use them; what is sensitive is sealed.
CREATE TABLE package_setting (
    org   TEXT NOT NULL,
    pid   TEXT NOT NULL,
    value TEXT NOT NULL,              -- JSON
    PRIMARY KEY (org, pid)
) STRICT, WITHOUT ROWID;

-- What an org's admin lets a package reach.
CREATE TABLE package_grant (
    org        TEXT NOT NULL,
    pid        TEXT NOT NULL,
    capability TEXT NOT NULL,
    granted_by TEXT,
    at_ms      INTEGER NOT NULL,
    PRIMARY KEY (org, pid, capability)
) STRICT, WITHOUT ROWID;
