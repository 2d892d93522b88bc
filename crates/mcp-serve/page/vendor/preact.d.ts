// The part of Preact that the page uses, for the check of its types.
export function html(strings: TemplateStringsArray, ...values: any[]): any;
export function render(node: any, root: Element): void;
export function useState<T>(initial: T | (() => T)): [T, (next: T | ((before: T) => T)) => void];
export function useEffect(effect: () => void | (() => void), inputs?: unknown[]): void;
export function useLayoutEffect(effect: () => void | (() => void), inputs?: unknown[]): void;
export function useRef<T>(initial: T): { current: T };
