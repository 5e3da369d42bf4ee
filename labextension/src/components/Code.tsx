import * as React from 'react';
import { highlight } from '../review/colours';
import type { IDiffLine } from '../review/diff';
import { countLines, foldEmpty } from '../review/diff';
import { foldEmptyLines, markOddCharacters } from './oddCharacterMarks';
import { useServices } from './services';

/** Lines shown before "Show all". */
const MOST_LINES = 12;

interface ICodeProps {
  text: string;
  mimeType: string;
  /** Whether many empty lines in a row are shown as one, so that they do not push code out of view. */
  folded?: boolean;
}

/** Highlighted code. */
export function Code(props: ICodeProps): React.JSX.Element {
  return (
    <pre className="jp-Agent-code" onCopy={copyExactly}>
      <Coloured {...props} />
    </pre>
  );
}

/** Browsers copy the rendered text: a no-break space as a space, a carriage return as nothing. */
function copyExactly(event: React.ClipboardEvent): void {
  const selected = getSelection();
  const range = selected?.rangeCount ? selected.getRangeAt(0) : null;
  if (range && event.currentTarget.contains(range.commonAncestorContainer)) {
    event.clipboardData.setData('text/plain', range.cloneContents().textContent ?? '');
    event.preventDefault();
  }
}

interface IDiffProps {
  lines: readonly IDiffLine[];
  mimeType: string;
  /** Whether it is shown in full from the start, with many empty lines in a row as one. */
  whole?: boolean;
}

/** A highlighted unified diff; long ones are folded unless `whole`, as needed where the user decides on them. */
export function Diff({ lines, mimeType, whole = false }: IDiffProps): React.JSX.Element {
  const { trans } = useServices();
  const [all, setAll] = React.useState(false);
  const cut = all ? lines : lines.slice(0, MOST_LINES);
  const shown = whole ? foldEmpty(lines) : cut;
  return (
    <div className="jp-Agent-diff">
      <pre className="jp-Agent-code">
        {shown.map(({ sign, text, empty = 0 }, index) => (
          <div key={index} className="jp-Agent-diffLine" data-sign={sign}>
            <span className="jp-Agent-sign">{sign}</span>
            {empty ? (
              <span className="jp-Agent-note">
                {trans._n('1 empty line', '%1 empty lines', empty)}
              </span>
            ) : (
              <Coloured text={text} mimeType={mimeType} />
            )}
          </div>
        ))}
      </pre>
      {!whole && shown.length < lines.length && (
        <button className="jp-Agent-link" onClick={() => setAll(true)}>
          {trans.__('Show all %1 lines', lines.length)}
        </button>
      )}
    </div>
  );
}

/** Invisible and lookalike characters are marked from the start, before highlighting. */
const Coloured = React.memo(function Coloured({ text, mimeType, folded = false }: ICodeProps) {
  const { languages, trans } = useServices();
  const paint = React.useCallback(
    (host: HTMLElement | null) => {
      if (!host) {
        return;
      }
      const show = (painted: HTMLElement): void => {
        markOddCharacters(painted, trans);
        if (folded) {
          foldEmptyLines(painted, trans);
        }
        host.replaceChildren(...painted.childNodes);
      };
      const plain = document.createElement('code');
      plain.textContent = text;
      show(plain);
      void highlight(text, languages.findByMIME(mimeType), languages).then(show);
    },
    [text, mimeType, folded, languages, trans]
  );
  return <code ref={paint} />;
});

/** "+6 −1". */
export function LineCount({ lines }: { lines: readonly IDiffLine[] }): React.JSX.Element | null {
  const { added, removed } = countLines(lines);
  return added + removed ? (
    <span className="jp-Agent-count">
      {added > 0 && <ins>+{added}</ins>} {removed > 0 && <del>−{removed}</del>}
    </span>
  ) : null;
}
