"""The tables of the store, as numbered migrations; `PRAGMA user_version` counts them."""

from __future__ import annotations

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE conversations (
        owner TEXT NOT NULL,
        id TEXT NOT NULL,
        title TEXT NOT NULL,
        notebook TEXT,
        model TEXT NOT NULL,
        created TEXT NOT NULL,
        updated TEXT NOT NULL,
        PRIMARY KEY (owner, id)
    );
    CREATE TABLE turns (
        id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        position INTEGER NOT NULL,          -- in the conversation, replaced ones counted
        replaced INTEGER NOT NULL DEFAULT 0,  -- asked again: kept, but not in the history
        question_id TEXT NOT NULL,          -- id of the user's message
        question TEXT NOT NULL,             -- the user's UIMessage
        answer_id TEXT NOT NULL,            -- id of the assistant's message
        request TEXT NOT NULL,              -- notebook, mode, model, limits, attachments
        idempotency_key TEXT,
        server INTEGER NOT NULL,            -- process id of the server that runs it
        state TEXT NOT NULL,
        stop_reason TEXT,
        steps INTEGER NOT NULL DEFAULT 0,
        usage TEXT NOT NULL DEFAULT '{}',
        started TEXT NOT NULL,
        ended TEXT,
        FOREIGN KEY (owner, conversation_id) REFERENCES conversations (owner, id) ON DELETE CASCADE
    );
    CREATE INDEX turns_of_conversation ON turns (owner, conversation_id, position);
    CREATE UNIQUE INDEX turns_by_key ON turns (owner, idempotency_key);
    CREATE TABLE history (
        id INTEGER PRIMARY KEY,
        turn_id TEXT NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
        role TEXT NOT NULL,
        content TEXT NOT NULL               -- the whole message, Anthropic's JSON, verbatim
    );
    CREATE INDEX history_of_turn ON history (turn_id, id);
    CREATE TABLE events (
        turn_id TEXT NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
        seq INTEGER NOT NULL,               -- from 1 in each turn
        event TEXT NOT NULL,
        PRIMARY KEY (turn_id, seq)
    ) WITHOUT ROWID;
    CREATE TABLE calls (
        turn_id TEXT NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
        call_id TEXT NOT NULL,
        tool TEXT NOT NULL,
        input TEXT NOT NULL,
        state TEXT NOT NULL,                -- started, done, failed, refused, unknown
        result TEXT,
        started TEXT NOT NULL,
        ended TEXT,
        PRIMARY KEY (turn_id, call_id)
    );
    CREATE TABLE changes (
        id INTEGER PRIMARY KEY,
        turn_id TEXT NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
        call_id TEXT NOT NULL,
        notebook TEXT NOT NULL,
        cell_id TEXT NOT NULL,
        kind TEXT NOT NULL,
        before TEXT,
        after TEXT,
        reviewed INTEGER NOT NULL DEFAULT 0,
        undone INTEGER NOT NULL DEFAULT 0,
        conflict TEXT,
        made TEXT NOT NULL
    );
    CREATE INDEX changes_of_turn ON changes (turn_id, id);
    CREATE INDEX changes_of_cell ON changes (notebook, cell_id, id);
    CREATE TABLE approvals (
        id TEXT PRIMARY KEY,
        turn_id TEXT NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
        call_id TEXT NOT NULL,
        approval TEXT NOT NULL,             -- what the person is shown
        binding TEXT NOT NULL,              -- hash of tool, input, cell versions and kernel
        state TEXT NOT NULL,                -- pending, approved, denied, expired, used
        reason TEXT,
        expires TEXT NOT NULL,
        answered TEXT
    );
    CREATE INDEX approvals_of_turn ON approvals (turn_id);
    CREATE TABLE rules (
        owner TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        tool TEXT NOT NULL,
        made TEXT NOT NULL,
        PRIMARY KEY (owner, conversation_id, tool),
        FOREIGN KEY (owner, conversation_id) REFERENCES conversations (owner, id) ON DELETE CASCADE
    );
    CREATE TABLE requests (
        turn_id TEXT NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
        seq INTEGER NOT NULL,
        host TEXT NOT NULL,
        request TEXT NOT NULL,              -- as sent, keys masked
        made TEXT NOT NULL,
        PRIMARY KEY (turn_id, seq)
    );
    CREATE TABLE audit (
        id INTEGER PRIMARY KEY,
        time TEXT NOT NULL,
        owner TEXT NOT NULL,
        entry TEXT NOT NULL,                -- chat, tools, mcp
        turn_id TEXT,                       -- kept when the turn is deleted
        call_id TEXT,
        model TEXT,
        tool TEXT NOT NULL,
        notebook TEXT,
        cell_id TEXT,
        decision TEXT NOT NULL,
        outcome TEXT,
        why TEXT
    );
    CREATE INDEX audit_of_turn ON audit (turn_id);
    CREATE TABLE recovery (
        id INTEGER PRIMARY KEY,
        notebook TEXT NOT NULL,
        content TEXT NOT NULL,              -- the notebook's JSON before we wrote to it
        made TEXT NOT NULL
    );
    CREATE INDEX recovery_of_notebook ON recovery (notebook, id);
    """,
    """
    -- "always allow here" is for the notebook in which it was said: what was said before is not
    -- known to be meant for any, so it is asked again.
    DROP TABLE rules;
    CREATE TABLE rules (
        owner TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        tool TEXT NOT NULL,
        notebook TEXT NOT NULL,
        made TEXT NOT NULL,
        PRIMARY KEY (owner, conversation_id, tool, notebook),
        FOREIGN KEY (owner, conversation_id) REFERENCES conversations (owner, id) ON DELETE CASCADE
    );
    -- `turns.server` is the id of the server's lock file now (Presence), no longer a process.
    CREATE INDEX live_turns ON turns (state) WHERE state IN ('running', 'waiting');
    """,
    """
    -- Long texts are stored once: `content` is empty for copies made since, and what turns keep of
    -- outputs refers to blocks.
    ALTER TABLE recovery ADD COLUMN size INTEGER;   -- in characters; NULL: that of `content`
    CREATE TABLE blocks (
        digest BLOB PRIMARY KEY,
        content BLOB NOT NULL               -- text, zlib
    ) WITHOUT ROWID;
    CREATE TABLE turn_blocks (
        turn_id TEXT NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
        digest BLOB NOT NULL REFERENCES blocks (digest),
        PRIMARY KEY (turn_id, digest)
    ) WITHOUT ROWID;
    CREATE INDEX turns_of_block ON turn_blocks (digest);
    CREATE TABLE recovery_blocks (
        copy_id INTEGER NOT NULL REFERENCES recovery (id) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        digest BLOB NOT NULL REFERENCES blocks (digest),
        PRIMARY KEY (copy_id, position)
    ) WITHOUT ROWID;
    CREATE INDEX copies_of_block ON recovery_blocks (digest);
    CREATE INDEX recovery_by_age ON recovery (made);
    """,
    """
    -- Servers with different root folders may share a store: paths count from the root of the turn,
    -- as its real path. NULL, of an earlier version: any.
    ALTER TABLE turns ADD COLUMN root TEXT;
    ALTER TABLE rules ADD COLUMN root TEXT;
    ALTER TABLE recovery ADD COLUMN root TEXT;
    """,
    """
    -- What a person decided about a file of instructions: it holds for the text with this digest.
    CREATE TABLE trust (
        owner TEXT NOT NULL,
        root TEXT NOT NULL,                 -- real path; empty if paths are no files
        path TEXT NOT NULL,
        digest TEXT NOT NULL,
        trusted INTEGER NOT NULL,
        decided TEXT NOT NULL,
        PRIMARY KEY (owner, root, path)
    ) WITHOUT ROWID;
    """,
    """
    -- "always allow" for code is for one kernel, until it restarts: the life (Kernel.life) that it
    -- was said for, empty while none ran yet. NULL for what runs no code there; what an earlier
    -- version has for code is NULL too, and covers nothing: its kernel ended with that server.
    ALTER TABLE rules ADD COLUMN kernel TEXT;
    """,
    """
    -- Requests with an idempotency key; those that started a turn are in `turns` too.
    CREATE TABLE keyed (
        owner TEXT NOT NULL,
        key TEXT NOT NULL,
        digest TEXT NOT NULL,               -- of method, address and body
        status INTEGER,                     -- of the answer; NULL: it has none yet
        answer TEXT NOT NULL,               -- its JSON; of a chat the turn's id
        made TEXT NOT NULL,
        PRIMARY KEY (owner, key)
    ) WITHOUT ROWID;
    CREATE INDEX keyed_by_age ON keyed (made);
    """,
    """
    -- Runs whose end is told to the conversation that started them, as its person wants.
    CREATE TABLE wakes (
        run_id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        state TEXT NOT NULL,                -- wanted, off, done
        made TEXT NOT NULL,
        FOREIGN KEY (owner, conversation_id) REFERENCES conversations (owner, id) ON DELETE CASCADE
    ) WITHOUT ROWID;
    """,
    """
    -- What was used stays when a conversation is deleted, as the audit does.
    CREATE TABLE deleted_turns (
        id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        model TEXT NOT NULL,
        notebook TEXT,
        steps INTEGER NOT NULL,
        usage TEXT NOT NULL,
        started TEXT NOT NULL,
        ended TEXT
    ) WITHOUT ROWID;
    CREATE INDEX deleted_turns_by_time ON deleted_turns (owner, started);
    -- With the usage, since a row of `turns` has the question, and pictures in it, before that.
    CREATE INDEX turns_by_time ON turns (owner, started, usage);
    CREATE VIEW used AS
        SELECT owner, started, usage, ended, steps,
            json_extract(request, '$.model') AS model,
            json_extract(request, '$.notebook') AS notebook
        FROM turns
        UNION ALL
        SELECT owner, started, usage, ended, steps, model, notebook FROM deleted_turns;
    """,
    """
    -- The ids that the cells of notebooks had which keep none (before format 4.5, text notebooks):
    -- `document/identities.py`.
    CREATE TABLE namings (
        root TEXT NOT NULL,                 -- real path; empty if paths are no files
        notebook TEXT NOT NULL,
        namings BLOB NOT NULL,              -- JSON, compressed
        PRIMARY KEY (root, notebook)
    ) WITHOUT ROWID;
    """,
)
