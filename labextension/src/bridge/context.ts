import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookModel } from '@jupyterlab/notebook';

/** A notebook that is open in this page, with its file; all its views share it. */
export type Context = DocumentRegistry.IContext<INotebookModel>;
