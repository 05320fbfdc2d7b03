-- Several daemons: who is there, what belongs to which node's disk, leases for what moves, and a row for each
-- change of what daemons have in memory. Connections of a daemon say who they are: kaged.node, kaged.life.

ALTER TABLE node ADD COLUMN address text NOT NULL DEFAULT '',         -- where other nodes find it
                 ADD COLUMN lives_ms bigint NOT NULL DEFAULT 10000;   -- without a sign of it

-- On whose disk it is; '': of a home that came here before nodes were told apart.
ALTER TABLE project ADD COLUMN node text NOT NULL DEFAULT '';
ALTER TABLE consent ADD COLUMN node text NOT NULL DEFAULT '';
UPDATE project SET node = coalesce((SELECT holder FROM cluster), '');
UPDATE consent SET node = coalesce((SELECT holder FROM cluster), '');
UPDATE session_restore SET node = coalesce((SELECT holder FROM cluster), '') WHERE node = '';
ALTER TABLE cluster DROP COLUMN holder, DROP COLUMN incarnation;

-- Who takes one changes the key of its row, and so waits for those that write by the old one; who renews it
-- does not.
CREATE TABLE lease (
    name  text COLLATE "C" PRIMARY KEY,   -- of a project
    epoch bigint NOT NULL,                -- how often it was taken
    node  text,                           -- NULL: it was given back
    life  text,                           -- of that node's daemon
    until timestamptz NOT NULL,
    UNIQUE (name, epoch)
) WITH (fillfactor = 50);

CREATE TABLE event (
    seq  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL,
    ref  text NOT NULL,
    life text,                            -- whose doing it was; NULL: of no daemon
    xid  xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at   timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX event_by_xid ON event (xid);
CREATE INDEX event_at ON event (at);

-- Names that daemons give out: who comes second is told so.
CREATE UNIQUE INDEX credential_token ON credential (name) WHERE kind = 'token';

-- Arguments: the kind, and the columns that name what was changed. Who works for an org may not write here himself.
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = kaged AS $$
DECLARE
    changed jsonb;
BEGIN
    IF TG_OP = 'DELETE' THEN
        changed := to_jsonb(OLD);
    ELSE
        changed := to_jsonb(NEW);
    END IF;
    INSERT INTO kaged.event (kind, ref, life)
        VALUES (TG_ARGV[0], concat_ws(' ', changed ->> TG_ARGV[1], changed ->> TG_ARGV[2]),
                nullif(current_setting('kaged.life', true), ''));
    PERFORM pg_notify('kaged', '');
    RETURN NULL;
END $$;

CREATE TRIGGER tell AFTER INSERT OR UPDATE OR DELETE ON credential
    FOR EACH ROW EXECUTE FUNCTION tell('credential', 'id');
CREATE TRIGGER tell AFTER INSERT OR UPDATE OR DELETE ON mcp_setting
    FOR EACH ROW EXECUTE FUNCTION tell('mcp_setting', 'kind', 'name');
CREATE TRIGGER tell AFTER INSERT OR UPDATE OR DELETE ON project
    FOR EACH ROW EXECUTE FUNCTION tell('project', 'id');
CREATE TRIGGER tell AFTER INSERT OR UPDATE OR DELETE ON org
    FOR EACH ROW EXECUTE FUNCTION tell('org', 'id');
CREATE TRIGGER tell AFTER INSERT OR UPDATE OR DELETE ON principal
    FOR EACH ROW EXECUTE FUNCTION tell('principal', 'id');
CREATE TRIGGER tell AFTER INSERT OR UPDATE OR DELETE ON org_member
    FOR EACH ROW EXECUTE FUNCTION tell('member', 'org', 'principal');
CREATE TRIGGER tell AFTER INSERT OR UPDATE OR DELETE ON package
    FOR EACH ROW EXECUTE FUNCTION tell('package', 'org', 'pid');
CREATE TRIGGER tell AFTER INSERT OR UPDATE OR DELETE ON package_setting
    FOR EACH ROW EXECUTE FUNCTION tell('package', 'org', 'pid');
CREATE TRIGGER tell AFTER INSERT OR UPDATE OR DELETE ON package_grant
    FOR EACH ROW EXECUTE FUNCTION tell('package', 'org', 'pid');
CREATE TRIGGER tell AFTER INSERT OR UPDATE OR DELETE ON orchestrator
    FOR EACH ROW EXECUTE FUNCTION tell('orchestrator', 'id');
CREATE TRIGGER tell AFTER INSERT OR UPDATE OF epoch, node ON lease
    FOR EACH ROW EXECUTE FUNCTION tell('lease', 'name');

-- A session is written where its project is. Every change of one changes its row, so that is where it is asked.
CREATE FUNCTION session_fence() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    holder text;
    holder_life text;
    ends timestamptz;
BEGIN
    IF starts_with(NEW.project_id, 'orchestrator-') THEN
        SELECT node, life, until INTO holder, holder_life, ends
            FROM kaged.lease WHERE name = NEW.project_id FOR KEY SHARE;
        IF holder_life IS NULL OR holder_life = current_setting('kaged.life', true)
                OR ends < clock_timestamp() THEN
            RETURN NEW;
        END IF;
    ELSE
        SELECT node INTO holder FROM kaged.project WHERE id = NEW.project_id AND loaded_ms IS NOT NULL;
        IF holder IS NULL OR holder IN ('', coalesce(current_setting('kaged.node', true), '')) THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'KG001',
        MESSAGE = format('project %s is on node %s', NEW.project_id, holder);
END $$;
CREATE TRIGGER fence BEFORE INSERT OR UPDATE ON session
    FOR EACH ROW EXECUTE FUNCTION session_fence();
