//! Reader of the XML that parameter files use: elements with text or elements in them, comments, a declaration. Attributes are refused, as
//! nothing here would know their meaning.

/// An element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    pub name: String,
    /// Its text, without blanks around it.
    pub text: String,
    pub children: Vec<Element>,
    /// Line on which it begins, from 1.
    pub line: u32,
}

/// Elements in elements, at most.
const DEPTH_MAX: usize = 16;

/// The element that the text is.
///
/// # Errors
/// A sentence with the line.
pub fn parse(text: &str) -> Result<Element, String> {
    let mut reader = Reader { text, at: 0 };
    reader.skip_between()?;
    let root = reader.element(0)?;
    reader.skip_between()?;
    if reader.rest().is_empty() { Ok(root) } else { Err(reader.fail("text behind the last element")) }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn line(&self) -> u32 {
        1 + self.text[..self.at].matches('\n').count() as u32
    }

    fn fail(&self, why: &str) -> String {
        format!("{}: {why}", self.line())
    }

    /// Moves past the next `mark`, and returns the text before it.
    fn until(&mut self, mark: &str) -> Result<&'a str, String> {
        let end =
            self.rest().find(mark).ok_or_else(|| self.fail(&format!("no {mark} to the end of the file")))?;
        let before = &self.rest()[..end];
        self.at += end + mark.len();
        Ok(before)
    }

    /// Skips blanks, comments and declarations.
    fn skip_between(&mut self) -> Result<(), String> {
        loop {
            let rest = self.rest();
            self.at +=
                rest.len() - rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}').len();
            let rest = self.rest();
            if rest.starts_with("<!--") {
                self.until("-->")?;
            } else if rest.starts_with("<?") {
                self.until("?>")?;
            } else {
                return Ok(());
            }
        }
    }

    fn element(&mut self, depth: usize) -> Result<Element, String> {
        let line = self.line();
        if depth > DEPTH_MAX {
            return Err(self.fail("elements too deep in each other"));
        }
        if !self.rest().starts_with('<') {
            return Err(self.fail("no element, as <NAME>value</NAME>"));
        }
        self.at += 1;
        let tag = self.until(">")?;
        let (tag, empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let name = tag.trim();
        if name.is_empty() || !name.chars().all(|c| c.is_alphanumeric() || "_-.:".contains(c)) {
            return Err(format!("{line}: <{name}>: not a plain name; attributes are not read"));
        }
        let mut element = Element { name: name.into(), text: String::new(), children: Vec::new(), line };
        if empty {
            return Ok(element);
        }
        loop {
            let end = self.rest().find('<').ok_or_else(|| format!("{line}: <{name}> has no end"))?;
            element.text += self.rest()[..end].trim();
            self.at += end;
            self.skip_between()?;
            if self.rest().starts_with("</") {
                let closed = self.until(">")?[2..].trim();
                if closed != name {
                    return Err(self.fail(&format!("</{closed}> where </{name}> is expected")));
                }
                return Ok(element);
            }
            if self.rest().starts_with('<') {
                element.children.push(self.element(depth + 1)?);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_read_with_their_lines() {
        let root =
            parse("<?xml version=\"1.0\"?>\n<a>\n <!-- <x> -->\n <b> 1 </b>\n <c/>\n</a>\n").expect("good");
        assert_eq!((root.name.as_str(), root.children.len()), ("a", 2));
        let b = &root.children[0];
        assert_eq!((b.name.as_str(), b.text.as_str(), b.line), ("b", "1", 4));
    }

    #[test]
    fn what_is_malformed_is_refused_with_its_line() {
        let deep = format!("{}{}", "<a>".repeat(40), "</a>".repeat(40));
        for (text, said) in [
            ("", "1: no element"),
            ("x", "1: no element"),
            ("<a>\n<b>1</a>", "2: </a> where </b> is expected"),
            ("<a>\n", "1: <a> has no end"),
            ("<a", "1: no > to the end"),
            ("<a b=\"1\">x</a>", "1: <a b=\"1\">: not a plain name"),
            ("<a></a><b></b>", "1: text behind the last element"),
            ("<!-- a", "1: no --> to the end"),
            (deep.as_str(), "1: elements too deep"),
        ] {
            let why = parse(text).expect_err(text);
            assert!(why.starts_with(said), "{text}: {why}");
        }
    }
}
