/** Made by `dev/schemas.mjs` from the OpenAPI description of the server. Do not edit. */

export interface components {
  schemas: {
    /** @description One answer to a question of a turn. */
    ApprovalReply: {
      id: string;
      approved: boolean;
      /** @default  */
      reason?: string;
      /** @default null */
      remember?: ('conversation' | 'turn') | null;
    };
    /** @description A cell as it is now; `saved` and `turn_id` only in answers to edits. */
    CellAnswer: {
      id: string;
      index: number;
      /** @enum {string} */
      type: 'code' | 'markdown' | 'raw';
      source: string;
      version: string;
      execution_count: number | null;
      /** @default [] */
      outputs?:
        | {
            [key: string]: unknown;
          }[]
        | string;
      metadata: {
        [key: string]: unknown;
      };
      stale: boolean;
      /** @default  */
      stale_why?: string;
      /** @default true */
      saved?: boolean;
      /** @default  */
      note?: string;
      /** @default  */
      turn_id?: string;
    };
    /** @description A cell, with its outputs. */
    CellAttached: {
      /**
       * @description discriminator enum property added by openapi-typescript
       * @enum {string}
       */
      type: 'cell';
      cell_id: string;
      /** @default null */
      notebook?: string | null;
    };
    /** @description The proposed change of one of several cells. */
    CellDiffAnswer: {
      /** @description Null for a new cell. */
      cell_id: string | null;
      /** @enum {string} */
      cell_type: 'code' | 'markdown' | 'raw';
      diff: string;
    };
    /** @description The change of one cell by a turn. */
    ChangeAnswer: {
      notebook: string;
      cell_id: string;
      call_id: string | null;
      /** @enum {string} */
      kind: 'insert' | 'update' | 'delete' | 'move' | 'outputs';
      before: components['schemas']['StateAnswer'] | null;
      after: components['schemas']['StateAnswer'] | null;
      reviewed: boolean;
      undone: boolean;
      conflict: string | null;
    };
    /** @description The body of a stock `useChat` client, plus our own fields; other fields are ignored. */
    ChatBody: {
      /** @default null */
      notebook?: string | null;
      /**
       * @default ask
       * @enum {string}
       */
      mode?: 'read' | 'ask' | 'edit' | 'auto';
      allow?: string[];
      /**
       * @default all
       * @enum {string}
       */
      share?: 'all' | 'no-outputs' | 'code-only';
      /**
       * @default wait
       * @enum {string}
       */
      while_away?: 'wait' | 'write';
      /** @default null */
      model?: string | null;
      /** @default null */
      effort?: ('none' | 'low' | 'medium' | 'high' | 'max') | null;
      /** @default null */
      fallback_model?: string | null;
      /** @default  */
      instructions?: string;
      /** @default false */
      trust_instructions?: boolean;
      /**
       * @default hold
       * @enum {string}
       */
      on_approval?: 'hold' | 'end' | 'decline';
      /** @default null */
      max_steps?: number | null;
      /** @default null */
      max_tokens?: number | null;
      /** @default null */
      token_budget?: number | null;
      /** @default null */
      cost_budget?: number | null;
      /** @default null */
      id?: string | null;
      messages?: {
        [key: string]: unknown;
      }[];
      /**
       * @default submit-message
       * @enum {string}
       */
      trigger?: 'submit-message' | 'regenerate-message';
      /** @default null */
      messageId?: string | null;
      /** @default null */
      continues?: string | null;
      context?: (
        | components['schemas']['CellAttached']
        | components['schemas']['SelectionAttached']
        | components['schemas']['FileAttached']
        | components['schemas']['VariableAttached']
      )[];
      /** @default true */
      stream?: boolean;
      /** @default false */
      undo?: boolean;
      /** @default null */
      client?: string | null;
    };
    /** @description The code of one of several cells that would run. */
    CodeAnswer: {
      cell_id: string;
      code: string;
    };
    /** @description A change that was left in place, and why. */
    ConflictAnswer: {
      notebook: string;
      cell_id: string;
      reason: string;
      why: string;
    };
    /** @description A conversation. */
    ConversationAnswer: {
      id: string;
      title: string;
      notebook: string | null;
      model: string | null;
      updated: string;
      state: ('running' | 'waiting' | 'done' | 'stopped' | 'failed' | 'interrupted') | null;
      usage: components['schemas']['UsageNumbers'];
      created: string;
      instructions: {
        [key: string]: unknown;
      }[];
      turns: {
        [key: string]: unknown;
      }[];
      messages: {
        [key: string]: unknown;
      }[];
    };
    /** @description A text file or PDF below the server's root. */
    FileAttached: {
      /**
       * @description discriminator enum property added by openapi-typescript
       * @enum {string}
       */
      type: 'file';
      path: string;
    };
    /** @description A conversation in a page of search results. */
    FoundConversation: {
      id: string;
      title: string;
      notebook: string | null;
      model: string | null;
      updated: string;
      state: ('running' | 'waiting' | 'done' | 'stopped' | 'failed' | 'interrupted') | null;
      usage: components['schemas']['UsageNumbers'];
      /** @description The words around the query, in a question or an answer; null if the title matched. */
      match: string | null;
    };
    /** @description Instructions in a file of the project, and the user's decision about them. */
    InstructionFile: {
      source: string;
      characters: number;
      /** @description Whether it is too long, so that only its beginning is sent. */
      cut: boolean;
      /**
       * @description `changed`: another text of the file was trusted.
       * @enum {string}
       */
      trust: 'trusted' | 'declined' | 'new' | 'changed';
      /** @description Identifies the text in a decision about it. */
      digest: string;
      text: string;
    };
    /** @description A notebook's kernel. */
    KernelAnswer: {
      id: string;
      name: string;
      state: string;
    };
    /** @description A run, without its outputs. */
    ListedRun: {
      run_id: string;
      notebook: string;
      cell_id: string | null;
      /** @enum {string} */
      status:
        | 'queued'
        | 'running'
        | 'ok'
        | 'error'
        | 'timeout'
        | 'interrupted'
        | 'died'
        | 'restarted'
        | 'deleted';
      execution_count: number | null;
      seconds: number;
      /** @default true */
      saved?: boolean | 'pending';
      /** @default false */
      expected_error?: boolean;
      /** @default  */
      note?: string;
      /** @default  */
      blocked_by?: string;
      /** @default  */
      turn_id?: string;
    };
    /** @description A tool. */
    ListedTool: {
      name: string;
      description: string;
      input_schema: {
        [key: string]: unknown;
      };
      /** @default [] */
      input_examples?: {
        [key: string]: unknown;
      }[];
      /**
       * @description Whether a service that supports it should hold the model to the schema.
       * @default false
       */
      strict?: boolean;
      /** @enum {string} */
      effect: 'read' | 'edit' | 'run';
      /** @description Whether it runs code in the notebook's kernel. */
      in_kernel: boolean;
      /** @description Whether a call is about one notebook. */
      names_notebook: boolean;
      /** @description Whether people want to read its result as text. */
      shows_result: boolean;
      /** @description What people read about a call: the first whose `given` its input has. */
      words: components['schemas']['ToolWords'][];
      /** @enum {string} */
      icon:
        | 'add'
        | 'code'
        | 'delete'
        | 'edit'
        | 'file'
        | 'list'
        | 'look'
        | 'move'
        | 'refresh'
        | 'run'
        | 'search'
        | 'stop'
        | 'tool';
      /**
       * @description Old names that are still accepted.
       * @default []
       */
      former_names?: string[];
    };
    /** @description The available models; the facts about each are by `provider:model`. */
    ModelsAnswer: {
      default: string | null;
      fallback: string | null;
      providers: components['schemas']['ProviderAnswer'][];
      /** @description Size of the context window, in tokens. */
      windows: {
        [key: string]: number;
      };
      /** @description Whether the model takes images. */
      images: {
        [key: string]: boolean;
      };
      /** @description Whether it reads PDF files. */
      documents: {
        [key: string]: boolean;
      };
    };
    /** @description A notebook, including unsaved typing. */
    NotebookAnswer: {
      path: string;
      /** @enum {string} */
      carrier: 'room' | 'tab' | 'file';
      kernel: components['schemas']['KernelAnswer'] | null;
      verified: components['schemas']['VerifiedAnswer'] | null;
      metadata: {
        [key: string]: unknown;
      };
      cells: components['schemas']['CellAnswer'][];
    };
    /** @description A change that is neither kept nor undone. */
    PendingAnswer: {
      notebook: string;
      cell_id: string;
      call_id: string | null;
      /** @enum {string} */
      kind: 'insert' | 'update' | 'delete' | 'move' | 'outputs';
      before: components['schemas']['StateAnswer'] | null;
      after: components['schemas']['StateAnswer'] | null;
      reviewed: boolean;
      undone: boolean;
      conflict: string | null;
      turn_id: string;
    };
    /** @description A question whose answer a turn waits for. */
    PendingApproval: {
      id: string;
      /**
       * @description Shared by approvals that are one question, such as an edit and its run.
       * @default
       */
      group?: string;
      call_id: string;
      tool: string;
      input: {
        [key: string]: unknown;
      };
      notebook: string | null;
      cell_id: string | null;
      /**
       * @description The exact code that would run.
       * @default
       */
      code?: string;
      /**
       * @description The code by cell, if several would run.
       * @default []
       */
      cells?: components['schemas']['CodeAnswer'][];
      /**
       * @description The proposed change, as a unified diff.
       * @default
       */
      diff?: string;
      /**
       * @description The same by cell, if several would change.
       * @default []
       */
      edits?: components['schemas']['CellDiffAnswer'][];
      /**
       * @description The type of the cell after the edit, or of the cell to be deleted.
       * @default code
       * @enum {string}
       */
      cell_type?: 'code' | 'markdown' | 'raw';
      /**
       * @description The name of the only kernel to which the answer applies.
       * @default
       */
      kernel?: string;
      /**
       * @description Addresses on other servers that a page loads as soon as it shows the result.
       * @default []
       */
      loads?: string[];
      /**
       * @description Systems, such as Dask, on which the code may start a job.
       * @default []
       */
      clusters?: string[];
      /**
       * @description The MCP server that would get the input.
       * @default
       */
      server?: string;
      /**
       * @description The name of the tool there.
       * @default null
       */
      server_tool?: string | null;
      /**
       * @description What else a person has to know.
       * @default []
       */
      facts?: components['schemas']['PhraseAnswer'][];
      expires: string;
    };
    /** @description Words with `{places}` for the values; a pair is for one and for several (`count`). */
    PhraseAnswer: {
      text: string | [string, string];
      values: {
        [key: string]: number | string;
      };
    };
    /** @description The administrator's decisions for the user. */
    PolicyAnswer: {
      user: string;
      groups: string[];
      models: string[];
      /** @enum {string} */
      max_mode: 'read' | 'ask' | 'edit' | 'auto';
      rules: {
        [key: string]: unknown;
      }[];
      allow_remote_content: boolean;
    };
    /** @description A configured provider. */
    ProviderAnswer: {
      name: string;
      models: string[];
      credentials: boolean;
    };
    /** @description A request to a model, with its content. */
    RequestAnswer: {
      host: string;
      made: string;
      characters: number;
    };
    /** @description A piece of a cell's text. */
    SelectionAttached: {
      /**
       * @description discriminator enum property added by openapi-typescript
       * @enum {string}
       */
      type: 'selection';
      text: string;
      /** @default null */
      cell_id?: string | null;
      /** @default null */
      notebook?: string | null;
    };
    /** @description One side of a change. */
    StateAnswer: {
      /** @enum {string} */
      type: 'code' | 'markdown' | 'raw';
      source: string;
      metadata: {
        [key: string]: unknown;
      };
      index: number;
      outputs: {
        [key: string]: unknown;
      }[];
      execution_count: number | null;
      /**
       * @description If the change removed or moved the cell: ids of the cells above it then, nearest first.
       * @default []
       */
      above?: string[];
      /**
       * @description Those below it.
       * @default []
       */
      below?: string[];
    };
    /** @description The state of the server. */
    StatusAnswer: {
      version: string;
      carriers: ('room' | 'tab' | 'file')[];
      notes: string[];
      notebooks: {
        [key: string]: unknown;
      }[];
      turns: {
        [key: string]: unknown;
      }[];
      /** @enum {string} */
      share: 'all' | 'no-outputs' | 'code-only';
      policy: components['schemas']['PolicyAnswer'];
      instructions: {
        [key: string]: unknown;
      }[];
      mcp_servers: {
        [key: string]: unknown;
      }[];
      store: {
        [key: string]: unknown;
      };
    };
    /** @description Templates for a call (docs/plugs.md); a pair is for one and for several. */
    ToolWords: {
      todo: string | [string, string];
      doing: string | [string, string];
      done: string | [string, string];
      /**
       * @description What one allows by "always".
       * @default
       */
      scope?: string;
      /**
       * @description The field that an input must have; empty for any input.
       * @default
       */
      given?: string;
      /**
       * @description The field with the list that `{count}` counts.
       * @default
       */
      counts?: string;
    };
    /** @description The changes that were taken back, and those left in place. */
    UndoneAnswer: {
      undone: components['schemas']['ChangeAnswer'][];
      conflicts: components['schemas']['ConflictAnswer'][];
      /** @description Sentences on what stays besides the conflicts. */
      remarks: string[];
      message: string;
    };
    /** @description Tokens and costs. */
    UsageNumbers: {
      input_tokens: number;
      output_tokens: number;
      cache_read_tokens: number;
      cache_write_tokens: number;
      cost: number | null;
    };
    /** @description A variable of the notebook's kernel. */
    VariableAttached: {
      /**
       * @description discriminator enum property added by openapi-typescript
       * @enum {string}
       */
      type: 'variable';
      name: string;
    };
    /** @description The last verification of a notebook. */
    VerifiedAnswer: {
      ok: boolean;
      at: string;
      kernel: string;
      /** @description Versions of the packages that the cells import. */
      packages: {
        [key: string]: string;
      };
      /** @description SHA-256 of all code. */
      hash: string;
      cells: number;
      same: number;
      /** @description Whether the code has changed since. */
      outdated: boolean;
      /** @description Whether it is recorded in the notebook. */
      recorded: boolean;
      /** @description Whether this server did it; otherwise the notebook only claims it. */
      here: boolean;
    };
  };
}
