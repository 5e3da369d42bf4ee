import type { AgentPart, CallPart, INotice } from '../api/protocol';

type PartOf<Type extends AgentPart['type']> = Extract<AgentPart, { type: Type }>;
export type TextPart = PartOf<'text'>;
export type ThinkingPart = PartOf<'reasoning'>;

/** A section of a displayed answer; `work` is all calls and thinking between two passages of text. */
export type Section =
  | { type: 'text'; part: TextPart }
  | { type: 'thinking'; part: ThinkingPart }
  | { type: 'notice'; part: PartOf<'data-notice'> }
  | { type: 'work'; parts: readonly (CallPart | ThinkingPart)[] };

/** Work of a finished answer, shown as one line. */
export interface IFold {
  type: 'fold';
  sections: readonly Section[];
  calls: readonly CallPart[];
}

/** Longest text, in characters, between two pieces of work that counts as a remark on it, not as an answer. */
const REMARK_LENGTH = 280;

/** The displayed parts of an answer, in order; calls without text between them are one section. */
export function sectionsOf(
  parts: readonly AgentPart[],
  isShown: (notice: INotice) => boolean
): Section[] {
  const sections: Section[] = [];
  let work: (CallPart | ThinkingPart)[] | null = null;
  for (const part of parts) {
    if (part.type === 'dynamic-tool') {
      if (!work) {
        sections.push({ type: 'work', parts: (work = []) });
      }
      work.push(part);
    } else if (part.type === 'reasoning' && part.text) {
      if (work) {
        work.push(part);
      } else {
        sections.push({ type: 'thinking', part });
      }
    } else if (part.type === 'text' && part.text.trim()) {
      sections.push({ type: 'text', part });
      work = null;
    } else if (part.type === 'data-notice' && isShown(part.data)) {
      sections.push({ type: 'notice', part });
      work = null;
    }
  }
  return sections;
}

/** The sections with all work of a finished answer folded, from its first to its last call, remarks included. */
export function foldWork(sections: readonly Section[]): (Section | IFold)[] {
  const shown: (Section | IFold)[] = [];
  for (let start = 0; start < sections.length;) {
    const end = endOfWork(sections, start);
    if (end === start) {
      shown.push(sections[start++]);
      continue;
    }
    const folded = sections.slice(start, end);
    shown.push({ type: 'fold', sections: folded, calls: folded.flatMap(callsOf) });
    start = end;
  }
  return shown;
}

/** The calls of a section. */
export function callsOf(section: Section): CallPart[] {
  return section.type === 'work' ? section.parts.filter(part => part.type === 'dynamic-tool') : [];
}

/** The index after the last work to fold with the one that starts here; `start` if there isn't any. */
function endOfWork(sections: readonly Section[], start: number): number {
  let end = start;
  if (sections[start].type === 'work') {
    for (let next = start; next < sections.length && isRemark(sections[next]); next++) {
      if (sections[next].type === 'work') {
        end = next + 1;
      }
    }
  }
  return end;
}

function isRemark(section: Section): boolean {
  switch (section.type) {
    case 'text':
      return section.part.text.length <= REMARK_LENGTH;
    case 'notice':
      return section.part.data.kind === 'retrying';
    default:
      return true;
  }
}

/** The parts of attempts that were abandoned and retried. */
export function abandonedParts(
  parts: readonly AgentPart[],
  running: boolean
): ReadonlySet<AgentPart> {
  const abandoned: AgentPart[] = [];
  let step: AgentPart[] = [];
  for (const part of parts) {
    if (part.type === 'step-start') {
      step = [];
    } else if (isNotice(part, 'fallback')) {
      abandoned.push(...step.splice(0)); // and the notice stays: it says who answers
    } else if (isNotice(part, 'provider') || isNotice(part, 'failed')) {
      continue;
    } else if (isRetry(part)) {
      abandoned.push(...step.splice(0));
      step.push(part); // part of the next attempt: if that fails too, it has its own notice
    } else {
      step.push(part);
    }
  }
  if (!running && step.every(isRetry)) {
    abandoned.push(...step); // the last attempt, which produced nothing
  }
  return new Set(abandoned);
}

function isRetry(part: AgentPart): boolean {
  return isNotice(part, 'retrying') || isNotice(part, 'retry-now');
}

function isNotice(part: AgentPart, kind: string): boolean {
  return part.type === 'data-notice' && part.data.kind === kind;
}
