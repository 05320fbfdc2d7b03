-- Orgs by row security, a second wall behind the daemon's own checks. Work for an org is done as a role that owns
-- nothing (set role, kaged.org: both until the transaction ends): it sees the org's rows, and packages of the system,
-- whatever a query asks for, and no other table at all. What the daemon does for itself it does as the tables' owner.
DO $$
BEGIN
    IF to_regrole('kaged_org') IS NULL THEN
        CREATE ROLE kaged_org NOLOGIN;
        GRANT kaged_org TO CURRENT_USER;
    ELSIF NOT pg_has_role(current_user, 'kaged_org', 'MEMBER') THEN
        GRANT kaged_org TO CURRENT_USER;
    END IF;
END
$$;

GRANT USAGE ON SCHEMA kaged TO kaged_org;
GRANT SELECT, INSERT, UPDATE, DELETE
    ON org_member, package, package_setting, package_grant, llm_config, orchestrator TO kaged_org;

ALTER TABLE org_member ENABLE ROW LEVEL SECURITY;
ALTER TABLE package ENABLE ROW LEVEL SECURITY;
ALTER TABLE package_setting ENABLE ROW LEVEL SECURITY;
ALTER TABLE package_grant ENABLE ROW LEVEL SECURITY;
ALTER TABLE llm_config ENABLE ROW LEVEL SECURITY;
ALTER TABLE orchestrator ENABLE ROW LEVEL SECURITY;

CREATE POLICY own_rows ON org_member TO kaged_org USING (org = current_setting('kaged.org', true));
CREATE POLICY own_rows ON package TO kaged_org USING (org = current_setting('kaged.org', true));
CREATE POLICY own_rows ON package_setting TO kaged_org USING (org = current_setting('kaged.org', true));
CREATE POLICY own_rows ON package_grant TO kaged_org USING (org = current_setting('kaged.org', true));
CREATE POLICY own_rows ON llm_config TO kaged_org USING (org = current_setting('kaged.org', true));
CREATE POLICY own_rows ON orchestrator TO kaged_org USING (org = current_setting('kaged.org', true));
CREATE POLICY system_packages ON package FOR SELECT TO kaged_org USING (org = '');
