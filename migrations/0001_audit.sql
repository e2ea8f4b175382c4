-- The audit log: what was decided, by whom, on what evidence. Append-only by grants.
--
-- Everything lives in the schema `public` of a database of its own. Whoever runs this owns it; controllers work as
-- `barrage_writer`, dashboards and readers as `barrage_reader`. Both are groups: give them to a login.

DO $$
DECLARE
    role_name text;
BEGIN
    FOREACH role_name IN ARRAY ARRAY['barrage_writer', 'barrage_reader'] LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role_name) THEN
                EXECUTE format('CREATE ROLE %I NOLOGIN', role_name);
            END IF;
        EXCEPTION
            -- Roles belong to the whole server; another database may be making them at this moment.
            WHEN duplicate_object OR unique_violation THEN NULL;
        END;
    END LOOP;
END
$$;

CREATE TABLE decision (
    slot_ts      timestamptz NOT NULL,           -- first instant of the slot, event time
    decision_id  uuid        NOT NULL,           -- a function of what was decided, so that writing twice is one row
    shard        integer     NOT NULL,
    slot         bigint      NOT NULL,           -- slots of 100 ms since 1970
    scope        text        NOT NULL,           -- room, service, site
    subject      text        NOT NULL,
    room         text,                           -- the subject where it is a room
    class        text,
    kind         text        NOT NULL,
    rule         text        NOT NULL,
    rule_version bigint      NOT NULL,
    mode         text        NOT NULL,
    from_state   text        NOT NULL,
    to_state     text        NOT NULL,
    level_from   smallint,                       -- the states as numbers, for kind `level`
    level_to     smallint,
    actor        text        NOT NULL,           -- `auto` or a person
    rules_hash   text        NOT NULL,
    prev_id      uuid,                           -- the decision before this one about the same subject
    evidence     jsonb       NOT NULL,           -- every value and threshold compared
    offsets      jsonb       NOT NULL,           -- per partition, the first offset that had passed the slot's end
    canonical    text        NOT NULL,           -- the decision byte for byte, as hashed
    content_hash bytea       NOT NULL CHECK (length(content_hash) = 32),  -- blake3 of `canonical`
    trace_id     text        NOT NULL,
    epoch        bigint      NOT NULL,           -- leader term
    instance     text        NOT NULL,           -- who wrote it
    revision     bigint      NOT NULL,           -- of etcd, when it was recorded
    recorded_at  timestamptz NOT NULL CHECK (isfinite(recorded_at)),   -- wall clock of the controller
    written_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (slot_ts, decision_id)
) PARTITION BY RANGE (slot_ts);

CREATE INDEX decision_by_room ON decision (room, slot_ts DESC);
CREATE INDEX decision_by_id ON decision (decision_id);

CREATE TABLE rule_version (
    rules_hash  text        PRIMARY KEY,
    body        text        NOT NULL,            -- the rule set, TOML
    shard       integer     NOT NULL,
    from_slot   bigint      NOT NULL,            -- first slot decided under it
    slot_ts     timestamptz NOT NULL,
    epoch       bigint      NOT NULL,
    instance    text        NOT NULL,
    recorded_at timestamptz NOT NULL CHECK (isfinite(recorded_at))
);

CREATE TABLE control_record (
    shard       integer     NOT NULL,
    epoch       bigint      NOT NULL,
    seq         bigint      NOT NULL,            -- of the step that carries it
    n           integer     NOT NULL,            -- place within the step
    kind        text        NOT NULL,            -- start, absent, back, partitions, rules, skip, rebase
    from_slot   bigint      NOT NULL,
    slot_ts     timestamptz NOT NULL,
    body        jsonb       NOT NULL,
    instance    text        NOT NULL,
    recorded_at timestamptz NOT NULL CHECK (isfinite(recorded_at)),
    PRIMARY KEY (shard, epoch, seq, n)
);

CREATE TABLE override_log (
    key         text        PRIMARY KEY,         -- where it stands in the control log
    shard       integer     NOT NULL,
    kind        text        NOT NULL,
    subject     text        NOT NULL,
    actor       text        NOT NULL,
    from_slot   bigint      NOT NULL,
    slot_ts     timestamptz NOT NULL,
    body        jsonb       NOT NULL,
    epoch       bigint      NOT NULL,
    instance    text        NOT NULL,
    recorded_at timestamptz NOT NULL CHECK (isfinite(recorded_at))
);

CREATE TABLE controller_epoch (
    shard       integer     NOT NULL,
    epoch       bigint      NOT NULL,
    instance    text        NOT NULL,
    from_slot   bigint      NOT NULL,            -- last slot known when the term began
    slot_ts     timestamptz,
    recorded_at timestamptz NOT NULL CHECK (isfinite(recorded_at)),
    PRIMARY KEY (shard, epoch)
);

-- Where what is recorded and what was decided part: one id with two contents, a standby that decided otherwise, a
-- stretch that the spool had no room for.
CREATE TABLE divergence (
    key         text        PRIMARY KEY,
    kind        text        NOT NULL CHECK (kind IN ('content', 'step', 'gap')),
    shard       integer     NOT NULL,
    slot        bigint      NOT NULL,
    slot_ts     timestamptz,
    decision_id uuid,
    ours        text,
    theirs      text,
    decisions   bigint      NOT NULL DEFAULT 0,  -- of a gap: how many are missing
    detail      text        NOT NULL,
    epoch       bigint      NOT NULL,
    instance    text        NOT NULL,
    recorded_at timestamptz NOT NULL CHECK (isfinite(recorded_at)),
    written_at  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE checkpoint (
    shard       integer     NOT NULL,
    epoch       bigint      NOT NULL,
    slot        bigint      NOT NULL,
    body        bytea       NOT NULL,
    body_hash   bytea       NOT NULL CHECK (length(body_hash) = 32),
    instance    text        NOT NULL,
    recorded_at timestamptz NOT NULL CHECK (isfinite(recorded_at)),
    PRIMARY KEY (shard, epoch, slot)
);

CREATE TABLE api_token (
    id          text        PRIMARY KEY,
    secret_hash bytea       NOT NULL,            -- the secret itself is shown once and kept nowhere
    role        text        NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    note        text        NOT NULL DEFAULT '',
    created_at  timestamptz NOT NULL DEFAULT now(),
    expires_at  timestamptz,
    revoked_at  timestamptz
);

-- Makes the partitions of these days (UTC) that do not exist. The writer may call it and owns nothing.
CREATE FUNCTION decision_partitions(days date[]) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    day       date;
    partition text;
    made      integer := 0;
    present   integer;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('barrage decision partitions', 0));
    SELECT count(*) INTO present FROM pg_inherits WHERE inhparent = 'public.decision'::regclass;
    FOREACH day IN ARRAY days LOOP
        partition := 'decision_' || to_char(day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass('public.' || partition) IS NOT NULL;
        IF present + made >= 4000 THEN
            RAISE EXCEPTION 'there are % partitions of decisions already', present + made
                USING ERRCODE = 'program_limit_exceeded',
                      HINT = 'drop old ones: barrage audit retain';
        END IF;
        -- Made apart and attached: that does not lock out who reads and writes the other days.
        EXECUTE format('CREATE TABLE public.%I (LIKE public.decision INCLUDING ALL)', partition);
        EXECUTE format('ALTER TABLE public.decision ATTACH PARTITION public.%I FOR VALUES FROM (%L) TO (%L)',
            partition, day::timestamp AT TIME ZONE 'UTC', (day + 1)::timestamp AT TIME ZONE 'UTC');
        made := made + 1;
    END LOOP;
    RETURN made;
END
$$;

-- Drops whole days before this one. For the owner, not for the writer.
CREATE FUNCTION decision_retain(before date) RETURNS integer
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    partition text;
    dropped   integer := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('barrage decision partitions', 0));
    FOR partition IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'public.decision'::regclass
          AND c.relname ~ '^decision_[0-9]{8}$'
          AND to_date(substr(c.relname, 10), 'YYYYMMDD') < before
        ORDER BY 1
    LOOP
        EXECUTE format('DROP TABLE public.%I', partition);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END
$$;

-- For Grafana's annotations: what is worth a mark on every board.
CREATE VIEW v_annotation AS
SELECT d.slot_ts AS time,
       CASE WHEN d.kind = 'level' AND d.level_to >= 2 THEN
           (SELECT min(n.slot_ts) FROM decision n
            WHERE n.room = d.room AND n.kind = 'level' AND n.mode = d.mode
              AND n.slot_ts > d.slot_ts AND n.slot_ts < d.slot_ts + interval '1 day')
       END AS timeend,
       d.subject || ': ' || d.kind || ' ' || d.from_state || ' to ' || d.to_state || ' (' || d.rule || ')' AS text,
       d.kind || ',' || d.scope || ',' || d.mode AS tags
FROM decision d
WHERE (d.kind = 'level' AND greatest(d.level_from, d.level_to) >= 2)
   OR d.kind IN ('blast_cap', 'flap_hold', 'frozen_long')
UNION ALL
SELECT recorded_at, NULL, 'leader ' || instance || ', term ' || epoch, 'leader,shard_' || shard
FROM controller_epoch
UNION ALL
SELECT slot_ts, NULL, 'rules ' || left(rules_hash, 12), 'rules,shard_' || shard FROM rule_version
UNION ALL
SELECT slot_ts, NULL, kind || ' of ' || subject || ' by ' || actor, 'override,' || kind FROM override_log;

-- The level at which each room stands, from decisions of the last seven days.
CREATE VIEW v_room_now AS
SELECT DISTINCT ON (room) room, level_to AS level, slot_ts AS since, rule, mode, decision_id, evidence, epoch, shard
FROM decision
WHERE kind = 'level' AND mode = 'enforce' AND room IS NOT NULL AND slot_ts > now() - interval '7 days'
ORDER BY room, slot_ts DESC;

REVOKE ALL ON FUNCTION decision_partitions(date[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION decision_retain(date) FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO barrage_writer, barrage_reader;
GRANT EXECUTE ON FUNCTION decision_partitions(date[]) TO barrage_writer;
GRANT SELECT, INSERT ON decision, rule_version, control_record, override_log, controller_epoch, divergence
    TO barrage_writer;
GRANT SELECT, INSERT, DELETE ON checkpoint TO barrage_writer;
GRANT SELECT ON api_token, _sqlx_migrations TO barrage_writer;
GRANT SELECT ON decision, rule_version, control_record, override_log, controller_epoch, divergence, checkpoint,
    v_annotation, v_room_now, _sqlx_migrations TO barrage_reader;
