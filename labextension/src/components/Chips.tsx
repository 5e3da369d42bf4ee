import { PathExt } from '@jupyterlab/coreutils';
import * as React from 'react';
import type { AgentPart, Attachment, IPicture } from '../api/protocol';
import { legible } from '../wording/oddCharacters';
import { useDraft, useServices } from './services';

/** The attachments of a message or of the draft. */
export function Chips(props: {
  attachments: readonly Attachment[];
  onRemove?: (index: number) => void;
}): React.JSX.Element {
  const nameOf = useAttachmentName();
  return (
    <>
      {props.attachments.map((attachment, index) => {
        const [name, about] = nameOf(attachment);
        return (
          <Chip
            key={index}
            name={name}
            about={about}
            onRemove={props.onRemove && (() => props.onRemove?.(index))}
          />
        );
      })}
    </>
  );
}

interface IChipProps {
  name: string;
  /** Tooltip. */
  about?: string;
  onRemove?: () => void;
  children?: React.ReactNode;
}

export function Chip(props: IChipProps): React.JSX.Element {
  const { about, onRemove, children } = props;
  const { focusMessage, trans } = useServices();
  const name = legible(props.name);
  const remove = (): void => {
    focusMessage(); // its own button disappears
    onRemove?.();
  };
  return (
    <span className="jp-Agent-chip" title={about}>
      {children}
      <span>{name}</span>
      {onRemove && (
        <button aria-label={trans.__('Remove %1', name)} onClick={remove}>
          ×
        </button>
      )}
    </span>
  );
}

/** The draft's attachments, each with a button to remove it. */
export function DraftChips(): React.JSX.Element | null {
  const { assistant } = useServices();
  const { place, pictures } = useDraft();
  const { draft } = assistant;
  const { attachments } = draft;
  if (!place && !attachments.length && !pictures.length) {
    return null;
  }
  return (
    <div className="jp-Agent-chips">
      {place && (
        <Chip
          name={PathExt.basename(place.notebook)}
          about={legible(place.notebook)}
          onRemove={() => draft.detach()}
        />
      )}
      <Chips attachments={attachments} onRemove={index => draft.detach(index)} />
      {pictures.map((picture, index) => (
        <Picture
          key={index}
          picture={picture}
          index={index}
          onRemove={() => draft.removePicture(index)}
        />
      ))}
    </div>
  );
}

/** A picture or another file attached to a question. */
export function Picture(props: {
  picture: IPicture;
  index: number;
  onRemove?: () => void;
}): React.JSX.Element {
  const { trans } = useServices();
  const { filename, url } = props.picture;
  return (
    <Chip name={filename || trans.__('Picture %1', props.index + 1)} onRemove={props.onRemove}>
      {isPicture(props.picture) && <img src={url} alt="" />}
    </Chip>
  );
}

/** Whether a part is a file, a picture or another one. */
export function isFile(part: AgentPart): part is IPicture {
  return part.type === 'file';
}

function isPicture({ mediaType }: IPicture): boolean {
  return mediaType.startsWith('image/');
}

/** The name of an attachment, and its tooltip. */
function useAttachmentName(): (attachment: Attachment) => [name: string, about?: string] {
  const { notebooks, trans } = useServices();
  return attachment => {
    switch (attachment.type) {
      case 'cell': {
        const position = notebooks.position(attachment);
        const name = position ? trans.__('@ cell %1', position) : trans.__('@ cell');
        return [name, notebooks.source(attachment)?.slice(0, 200) ?? attachment.notebook];
      }
      case 'selection':
        return [
          trans.__('@ selection, %1 characters', attachment.text.length),
          attachment.text.slice(0, 200)
        ];
      case 'file':
        return [`@ ${PathExt.basename(attachment.path)}`, legible(attachment.path)];
      case 'variable':
        return [`@ ${attachment.name}`, trans.__('A variable of the kernel')];
    }
  };
}
