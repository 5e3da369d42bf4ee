"""The tables of the store; `PRAGMA user_version` says which version of them a file has."""

from __future__ import annotations

from collections.abc import Mapping

MIGRATIONS: Mapping[int, str] = {
    10: """
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
        position INTEGER NOT NULL,          -- in the conversation, counting replaced turns
        replaced INTEGER NOT NULL DEFAULT 0,  -- asked again: stored, but not in the history
        question_id TEXT NOT NULL,          -- id of the user's message
        question TEXT NOT NULL,             -- the user's UIMessage
        answer_id TEXT NOT NULL,            -- id of the assistant's message
        request TEXT NOT NULL,              -- notebook, mode, model, limits, attachments
        idempotency_key TEXT,
        server INTEGER NOT NULL,            -- id of the server that runs it (Presence)
        state TEXT NOT NULL,
        stop_reason TEXT,
        steps INTEGER NOT NULL DEFAULT 0,
        usage TEXT NOT NULL DEFAULT '{}',
        started TEXT NOT NULL,
        ended TEXT,
        root TEXT,                          -- real path of the folder to which its paths are
                                            -- relative, since servers with different roots may
                                            -- share a store; NULL if paths are not files
        FOREIGN KEY (owner, conversation_id) REFERENCES conversations (owner, id) ON DELETE CASCADE
    );
    CREATE INDEX turns_of_conversation ON turns (owner, conversation_id, position);
    CREATE UNIQUE INDEX turns_by_key ON turns (owner, idempotency_key);
    CREATE INDEX live_turns ON turns (state) WHERE state IN ('running', 'waiting');
    -- With the usage, since in a row it comes after the question and its pictures.
    CREATE INDEX turns_by_time ON turns (owner, started, usage);
    -- The usage stays when a conversation is deleted, as the audit does.
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
    CREATE VIEW used AS
        SELECT owner, started, usage, ended, steps,
            json_extract(request, '$.model') AS model,
            json_extract(request, '$.notebook') AS notebook
        FROM turns
        UNION ALL
        SELECT owner, started, usage, ended, steps, model, notebook FROM deleted_turns;
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
        approval TEXT NOT NULL,             -- the approval object of docs/api.md
        binding TEXT NOT NULL,              -- hash of tool, input, cell versions and kernel
        state TEXT NOT NULL,                -- pending, approved, denied, expired, used
        reason TEXT,
        expires TEXT NOT NULL,
        answered TEXT
    );
    CREATE INDEX approvals_of_turn ON approvals (turn_id);
    -- "Always allow" holds for one notebook, and for code only in one kernel until it restarts.
    CREATE TABLE rules (
        owner TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        tool TEXT NOT NULL,
        notebook TEXT NOT NULL,
        made TEXT NOT NULL,
        root TEXT,                          -- as in turns
        kernel TEXT,                        -- the life of the kernel (Kernel.life), empty if no
                                            -- kernel was running; NULL for tools that run no code
        PRIMARY KEY (owner, conversation_id, tool, notebook),
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
    -- Copies of notebooks before we wrote to them.
    CREATE TABLE recovery (
        id INTEGER PRIMARY KEY,
        notebook TEXT NOT NULL,
        content TEXT NOT NULL,              -- empty: its text is in blocks
        made TEXT NOT NULL,
        size INTEGER,                       -- in characters
        root TEXT                           -- as in turns
    );
    CREATE INDEX recovery_of_notebook ON recovery (notebook, id);
    CREATE INDEX recovery_by_age ON recovery (made);
    -- Long texts, each stored once: copies consist of them, and events and changes refer to them.
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
    -- A person's decisions about files of instructions, each for the text with this digest.
    CREATE TABLE trust (
        owner TEXT NOT NULL,
        root TEXT NOT NULL,                 -- real path; empty if paths are not files
        path TEXT NOT NULL,
        digest TEXT NOT NULL,
        trusted INTEGER NOT NULL,
        decided TEXT NOT NULL,
        PRIMARY KEY (owner, root, path)
    ) WITHOUT ROWID;
    -- Requests with an idempotency key.
    CREATE TABLE keyed (
        owner TEXT NOT NULL,
        key TEXT NOT NULL,
        digest TEXT NOT NULL,               -- of method, address and body
        status INTEGER,                     -- of the answer; NULL while in progress
        answer TEXT NOT NULL,               -- its JSON; for a chat the turn's id
        made TEXT NOT NULL,
        PRIMARY KEY (owner, key)
    ) WITHOUT ROWID;
    CREATE INDEX keyed_by_age ON keyed (made);
    -- Runs whose end wakes the conversation that started them, if a person asked for that.
    CREATE TABLE wakes (
        run_id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        state TEXT NOT NULL,                -- wanted, off, done
        made TEXT NOT NULL,
        FOREIGN KEY (owner, conversation_id) REFERENCES conversations (owner, id) ON DELETE CASCADE
    ) WITHOUT ROWID;
    -- Ids for cells of notebooks without ids in the file (before format 4.5, text notebooks):
    -- `document/identities.py`.
    CREATE TABLE namings (
        root TEXT NOT NULL,                 -- real path; empty if paths are not files
        notebook TEXT NOT NULL,
        namings BLOB NOT NULL,              -- JSON, compressed
        PRIMARY KEY (root, notebook)
    ) WITHOUT ROWID;
    """,
    # The key of the request that started a turn is in `keyed`, like all other keys.
    11: """
    DROP INDEX turns_by_key;
    ALTER TABLE turns DROP COLUMN idempotency_key;
    """,
    12: """
    -- What a server leaves behind for its successor: running cells, pages with unsaved work.
    CREATE TABLE leftovers (
        server TEXT NOT NULL,               -- id of the server (Presence)
        root TEXT,                          -- real path; NULL if paths are not files
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        entry TEXT NOT NULL,                -- JSON
        PRIMARY KEY (server, kind, key)
    ) WITHOUT ROWID;
    """,
}
"""Scripts by the version that they lead to: the first creates a file, each later one migrates from
the version before."""
