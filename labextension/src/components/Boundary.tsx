import * as React from 'react';
import type { TranslationBundle } from '@jupyterlab/translation';

interface IBoundaryProps {
  trans: TranslationBundle;
  /** The content; when it changes, rendering is retried. */
  of: unknown;
  children: React.ReactNode;
}

interface IBoundaryState {
  failed: boolean;
  of: unknown;
}

/** Contains a rendering error, so that the rest of the panel keeps working. React logs the error. */
export class Boundary extends React.Component<IBoundaryProps, IBoundaryState> {
  override state: IBoundaryState = { failed: false, of: this.props.of };

  static getDerivedStateFromError(): Partial<IBoundaryState> {
    return { failed: true };
  }

  static getDerivedStateFromProps(
    { of }: IBoundaryProps,
    state: IBoundaryState
  ): Partial<IBoundaryState> | null {
    return of === state.of ? null : { failed: false, of };
  }

  override render(): React.ReactNode {
    const { trans, children } = this.props;
    return this.state.failed ? (
      <p className="jp-Agent-notice">
        {trans.__('This part cannot be shown. Nothing is lost: the notebook is not affected.')}
      </p>
    ) : (
      children
    );
  }
}
