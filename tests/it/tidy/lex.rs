//! Just enough of Rust's grammar to tell code from comments and text.
//!
//! Rules that look at lines are fooled by a word in a string or in a comment; rules that look at these tokens are not.
//! Literals keep their place and lose their content. Any input gives tokens: the compiler judges what is no Rust.

/// What a token is, as far as the rules care.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A word: identifiers, keywords, numbers; raw identifiers without their prefix.
    Word(String),
    /// `::` as one, anything else one character at a time.
    Sign(&'static str),
    /// Another sign, of no interest by itself.
    Other(char),
    /// A string, byte string or character.
    Literal,
    /// A comment of either form, with its markers.
    Comment(String),
}

/// A token and the line on which it begins, counted from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: Kind,
    pub line: usize,
}

impl Token {
    pub fn is(&self, text: &str) -> bool {
        match &self.kind {
            Kind::Word(word) => word == text,
            Kind::Sign(sign) => *sign == text,
            _ => false,
        }
    }

    pub fn word(&self) -> Option<&str> {
        match &self.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }
}

const SIGNS: [&str; 13] = ["::", "{", "}", "(", ")", "[", "]", "#", "$", "!", ",", "*", ";"];

/// The tokens of a source text, comments included.
pub fn lex(text: &str) -> Vec<Token> {
    let mut lexer = Lexer {
        rest: text,
        line: 1,
        tokens: Vec::new(),
    };
    while lexer.step() {}
    lexer.tokens
}

/// The tokens without the comments.
pub fn code(tokens: &[Token]) -> Vec<Token> {
    tokens
        .iter()
        .filter(|token| !matches!(token.kind, Kind::Comment(_)))
        .cloned()
        .collect()
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    tokens: Vec<Token>,
}

impl Lexer<'_> {
    fn step(&mut self) -> bool {
        let Some(first) = self.rest.chars().next() else {
            return false;
        };
        if first.is_whitespace() {
            self.skip(first.len_utf8());
        } else if self.rest.starts_with("//") {
            let len = self.rest.find('\n').unwrap_or(self.rest.len());
            self.comment(len);
        } else if self.rest.starts_with("/*") {
            let len = block_comment(self.rest);
            self.comment(len);
        } else if let Some(len) = string(self.rest).or_else(|| character(self.rest)) {
            self.push(Kind::Literal, len);
        } else if is_word(first) {
            self.name();
        } else if let Some(sign) = SIGNS.iter().find(|sign| self.rest.starts_with(**sign)) {
            self.push(Kind::Sign(sign), sign.len());
        } else {
            self.push(Kind::Other(first), first.len_utf8());
        }
        true
    }

    fn name(&mut self) {
        if self.rest.starts_with("r#") {
            self.skip(2);
        }
        let len = word_len(self.rest);
        let word = self.rest[..len].to_owned();
        self.push(Kind::Word(word), len);
    }

    fn comment(&mut self, len: usize) {
        let text = self.rest[..len].to_owned();
        self.push(Kind::Comment(text), len);
    }

    fn push(&mut self, kind: Kind, len: usize) {
        self.tokens.push(Token { kind, line: self.line });
        self.skip(len);
    }

    fn skip(&mut self, len: usize) {
        self.line += self.rest[..len].matches('\n').count();
        self.rest = &self.rest[len..];
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn word_len(text: &str) -> usize {
    text.find(|c| !is_word(c)).unwrap_or(text.len())
}

/// Length of a block comment, which may hold others.
fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Length of a string of any form at the start of the text, its prefix included.
fn string(text: &str) -> Option<usize> {
    let prefix = ["br", "cr", "b", "c", "r", ""].into_iter().find(|prefix| {
        let rest = text.strip_prefix(prefix).unwrap_or("");
        rest.starts_with('"') || (prefix.ends_with('r') && rest.trim_start_matches('#').starts_with('"'))
    })?;
    let rest = text.get(prefix.len()..)?;
    if !prefix.ends_with('r') {
        return Some(prefix.len() + quoted(rest, '"')?);
    }
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    let end = format!("\"{}", "#".repeat(hashes));
    let open = prefix.len() + hashes + 1;
    Some(text[open..].find(&end).map_or(text.len(), |at| open + at + end.len()))
}

/// Length of a character literal; a lifetime is none.
fn character(text: &str) -> Option<usize> {
    let prefix = usize::from(text.starts_with("b'"));
    let rest = text.get(prefix..)?;
    let mut chars = rest.strip_prefix('\'')?.chars();
    let (first, second) = (chars.next()?, chars.next()?);
    if first == '\\' || second == '\'' {
        Some(prefix + quoted(rest, '\'')?)
    } else {
        None
    }
}

/// Length of a quoted text with backslash escapes.
fn quoted(text: &str, quote: char) -> Option<usize> {
    let mut chars = text.char_indices();
    chars.next()?;
    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            chars.next();
        } else if c == quote {
            return Some(at + c.len_utf8());
        }
    }
    Some(text.len())
}
