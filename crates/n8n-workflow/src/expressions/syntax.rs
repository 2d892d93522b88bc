//! Finds errors of syntax in JavaScript without parsing it: brackets, texts, operators and words that
//! cannot follow each other.

/// Words after which another word may follow.
const KEYWORDS: &str = "return const let var new typeof await async of in instanceof function class \
    case delete void throw else yield static get set extends import export default from as do if try";
/// Characters of operators; `/` is read apart.
const OPERATORS: &str = "+-*%=&|<>!?:.^~";
/// Operators that may end an operand.
const POSTFIX: [&str; 2] = ["++", "--"];

/// The token before, without blanks.
#[derive(Clone, Copy, PartialEq)]
enum Before<'a> {
    Nothing,
    Word(&'a str),
    Text,
    Operator(&'a str),
    /// A closing bracket, or another sign that ends an operand.
    Close,
    /// An opening bracket, a comma or a semicolon.
    Open,
}

impl<'a> Before<'a> {
    /// An operator that needs an operand behind it.
    fn open_operator(self) -> Option<&'a str> {
        match self {
            Before::Operator(one) if !POSTFIX.contains(&one) => Some(one),
            _ => None,
        }
    }

    fn is_operand(self) -> bool {
        match self {
            Before::Word(word) => !is_keyword(word),
            Before::Text | Before::Close => true,
            Before::Operator(one) => POSTFIX.contains(&one),
            Before::Nothing | Before::Open => false,
        }
    }
}

/// The first error that is found, in words that follow the name of the place.
pub(crate) fn js_error(code: &str) -> Option<String> {
    let (mut open, mut before, mut line) = (Vec::new(), Before::Nothing, 1);
    let (mut at, mut has_break) = (0, false);
    let fault = |line: usize, what: String| {
        let place = if line > 1 {
            format!(" in line {line}")
        } else {
            String::new()
        };
        Some(format!("has a syntax error{place}: {what}"))
    };
    while let Some(c) = code[at..].chars().next() {
        let rest = &code[at..];
        let length = match c {
            '\n' => {
                (line, has_break) = (line + 1, true);
                1
            }
            c if c.is_whitespace() => c.len_utf8(),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => match rest.find("*/") {
                Some(end) => end + 2,
                None => return fault(line, "`/*` without `*/`".into()),
            },
            '/' if !before.is_operand() => match regex_length(rest) {
                Some(length) => {
                    before = Before::Text;
                    length
                }
                None => return fault(line, "`/` without its second operand".into()),
            },
            '"' | '\'' => match text_length(rest, c) {
                Some(_) if !has_break && (before == Before::Text || before == Before::Close) => {
                    return fault(line, format!("unexpected {c}"));
                }
                Some(length) => {
                    before = Before::Text;
                    length
                }
                None => return fault(line, format!("{c} without a second one")),
            },
            '`' => match template_length(rest) {
                Some(length) => {
                    before = Before::Text;
                    length
                }
                None => return fault(line, "` without a second one".into()),
            },
            '(' | '[' | '{' => {
                open.push((c, line));
                before = Before::Open;
                1
            }
            ')' | ']' | '}' => {
                if let Some(one) = before.open_operator() {
                    return fault(line, format!("`{one}` before `{c}`"));
                }
                match open.pop() {
                    Some(('(', _)) if c == ')' => {}
                    Some(('[', _)) if c == ']' => {}
                    Some(('{', _)) if c == '}' => {}
                    Some((other, line)) => {
                        return fault(line, format!("`{other}` is closed by `{c}`"));
                    }
                    None => return fault(line, format!("`{c}` without its opening bracket")),
                }
                before = Before::Close;
                1
            }
            ';' | ',' => {
                if let Some(one) = before.open_operator() {
                    return fault(line, format!("`{one}` before `{c}`"));
                }
                before = Before::Open;
                1
            }
            '/' => {
                before = Before::Operator(&rest[..1]);
                1
            }
            c if OPERATORS.contains(c) => {
                let length = rest.find(|c| !OPERATORS.contains(c)).unwrap_or(rest.len());
                let sign = &rest[..length];
                if sign.starts_with("..") && !sign.starts_with("...") {
                    return fault(line, format!("unexpected `{sign}`"));
                }
                before = Before::Operator(sign);
                length
            }
            c => {
                let is_part = |c: char| c.is_alphanumeric() || "_$#@\\".contains(c);
                let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
                let word = &rest[..length.max(c.len_utf8())];
                let follows = match before {
                    Before::Word(one) => !is_keyword(one) && !is_keyword(word),
                    Before::Text => !is_keyword(word),
                    _ => false,
                };
                if follows && !has_break {
                    return fault(line, format!("unexpected `{word}`"));
                }
                before = Before::Word(word);
                word.len()
            }
        };
        if c != '\n' && !c.is_whitespace() && !rest.starts_with("//") {
            has_break = false;
        }
        line += code[at..at + length]
            .matches('\n')
            .count()
            .saturating_sub(usize::from(c == '\n'));
        at += length;
    }
    if let Some((c, line)) = open.pop() {
        return fault(line, format!("`{c}` is not closed"));
    }
    let operator = before.open_operator()?;
    fault(line, format!("`{operator}` at its end"))
}

fn is_keyword(word: &str) -> bool {
    KEYWORDS.split_whitespace().any(|keyword| keyword == word)
}

/// The length of a text including its quotes; `None` if it has no end.
pub(crate) fn text_length(text: &str, quote: char) -> Option<usize> {
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => _ = chars.next(),
            '\n' if quote != '`' => return None,
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

fn template_length(text: &str) -> Option<usize> {
    let (mut at, mut depth) = (1, 0_usize);
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        at += match c {
            '\\' if depth == 0 => 1 + rest[1..].chars().next()?.len_utf8(),
            '`' if depth == 0 => return Some(at + 1),
            '$' if depth == 0 && rest.starts_with("${") => {
                depth = 1;
                2
            }
            '`' => template_length(rest)?,
            '"' | '\'' if depth > 0 => text_length(rest, c)?,
            '{' if depth > 0 => {
                depth += 1;
                1
            }
            '}' if depth > 0 => {
                depth -= 1;
                1
            }
            c => c.len_utf8(),
        };
    }
    None
}

fn regex_length(text: &str) -> Option<usize> {
    let (mut in_class, mut chars) = (false, text.char_indices().skip(1));
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => _ = chars.next(),
            '\n' => return None,
            '[' => in_class = true,
            ']' => in_class = false,
            '/' if !in_class => {
                let flags = text[at + 1..].chars().take_while(char::is_ascii_alphabetic);
                return Some(at + 1 + flags.count());
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_code_has_no_error() {
        for code in [
            "",
            "$json.body?.kind ?? 'none'",
            "{a: {b: 1}}",
            "const a = `x ${[1].map((n) => `${n}`)} }`;\nreturn [{ json: { a } }];",
            "const a = 'x'.replace(/['\"`(]/g, '');",
            "// it's (\n/* { */ return 1 / 2",
            "for (let i = 0; i < 3; i++) { a[i]--; }",
            "const {a, ...rest} = $json; const f = async x => await g(x);",
            "return a\n  ? 'b'\n  : \"c\"",
            "const a = 1\nconst b = 'x'\n'y'.length",
            "if (x) return 'a'; else throw new Error('b')",
            "!$json.a && -1 in b",
        ] {
            assert_eq!(js_error(code), None, "{code}");
        }
    }

    #[test]
    fn errors_of_syntax_are_found() {
        for (code, part) in [
            ("$json.body..x", "`..`"),
            ("f(1", "`(` is not closed"),
            ("f(1]", "closed by `]`"),
            ("f)", "without its opening"),
            ("$json.a + ", "`+` at its end"),
            ("\nconst a = ;", "line 2: `=` before `;`"),
            ("$json['kind", "' without a second"),
            ("`${a}", "` without"),
            ("'It's'", "unexpected `s`"),
            ("retrun a", "unexpected `a`"),
            ("/* x", "`/*`"),
        ] {
            let error = js_error(code).unwrap_or_default();
            assert!(error.contains(part), "{code}: {error}");
        }
    }
}
