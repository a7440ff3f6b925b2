//! Which template a URI may have come from.

/// A resource template, read for matching (RFC 6570, level 1): each expression in braces stands for one or more
/// characters, slashes included, the rest is literal, and a whole URI must fit. An opening brace without its closing
/// one is literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Before the first variable; everything, if there is none.
    head: Box<str>,
    variables: Box<[Variable]>,
    /// How many slashes the literal parts hold.
    slashes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Variable {
    name: Box<str>,
    /// The literal that follows it.
    tail: Box<str>,
}

impl Template {
    /// Reads a template; every text is one.
    pub fn parse(template: &str) -> Self {
        let (head, mut rest) = literal(template);
        let mut variables = Vec::new();
        while let Some((name, after)) = rest {
            let (tail, next) = literal(after);
            let (name, tail) = (name.trim().into(), tail.into());
            variables.push(Variable { name, tail });
            rest = next;
        }
        let literals = variables.iter().map(|variable| &*variable.tail).chain([head]);
        Self {
            slashes: literals.map(slashes).sum(),
            head: head.into(),
            variables: variables.into(),
        }
    }

    /// Whether `uri` fits.
    pub fn matches(&self, uri: &str) -> bool {
        self.split(uri, |_, _| {})
    }

    /// The values of the variables in `uri`, in the order of the template and as they stand there, or `None` if it does
    /// not fit. Each variable takes as much as it can, the first one first; of one that occurs twice the last value
    /// stands.
    #[cfg(test)]
    fn captures<'t, 'u>(&'t self, uri: &'u str) -> Option<Vec<(&'t str, &'u str)>> {
        let mut values: Vec<(&'t str, &'u str)> = Vec::with_capacity(self.variables.len());
        if !self.split(uri, |name, value| values.push((name, value))) {
            return None;
        }
        // They were found from the last to the first.
        let mut found: Vec<(&'t str, &'u str)> = Vec::with_capacity(values.len());
        for (name, value) in values {
            if found.iter().all(|(known, _)| *known != name) {
                found.push((name, value));
            }
        }
        found.reverse();
        Some(found)
    }

    /// How well `uri` fits, smaller is better, or `None` if it does not: whether a variable has to hold a slash. What
    /// the literal parts do not hold of a URI's slashes, variables do, however it is split.
    pub fn rank(&self, uri: &str) -> Option<Rank> {
        self.matches(uri).then(|| Rank {
            crosses_slash: slashes(uri) > self.slashes,
        })
    }

    /// Splits `uri`, and tells each variable's value, from the last to the first. The literals are sought from the end,
    /// each as far to the right as it can be, which gives all earlier variables the most, so that nothing has to be
    /// tried twice: each byte of the URI is looked at once for a literal and once for what follows it.
    fn split<'t, 'u>(&'t self, uri: &'u str, mut tell: impl FnMut(&'t str, &'u str)) -> bool {
        let Some(mut rest) = uri.strip_prefix(&*self.head) else {
            return false;
        };
        let Some((last, earlier)) = self.variables.split_last() else {
            return rest.is_empty();
        };
        let Some(stripped) = rest.strip_suffix(&*last.tail) else {
            return false;
        };
        rest = stripped;
        let mut name = &*last.name;
        for variable in earlier.iter().rev() {
            // The variable behind it takes at least one character.
            let Some((at, _)) = rest.char_indices().next_back() else {
                return false;
            };
            let found = rest.get(..at).and_then(|before| before.rfind(&*variable.tail));
            let Some((before, value)) =
                found.and_then(|at| Some((rest.get(..at)?, rest.get(at + variable.tail.len()..)?)))
            else {
                return false;
            };
            tell(name, value);
            (rest, name) = (before, &variable.name);
        }
        tell(name, rest);
        !rest.is_empty()
    }
}

/// How well a URI fits a template; the least is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    crosses_slash: bool,
}

/// The literal that `template` begins with, and then the next variable's name with what follows it, if there is one.
fn literal(template: &str) -> (&str, Option<(&str, &str)>) {
    let split = template
        .split_once('{')
        .and_then(|(literal, rest)| Some((literal, rest.split_once('}')?)));
    match split {
        Some((literal, variable)) => (literal, Some(variable)),
        None => (template, None),
    }
}

fn slashes(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'/').count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn captures<'u>(template: &str, uri: &'u str) -> Option<Vec<(String, &'u str)>> {
        let template = Template::parse(template);
        let found = template.captures(uri)?;
        Some(
            found
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        )
    }

    #[track_caller]
    fn fits(template: &str, uri: &str, values: &[(&str, &str)]) {
        let values: Vec<_> = values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect();
        assert_eq!(captures(template, uri), Some(values), "{template} {uri}");
    }

    #[test]
    fn variables_take_one_or_more_characters_of_any_kind_and_the_first_the_most() {
        fits("inv://{sku}", "inv://A-17", &[("sku", "A-17")]);
        fits("logs://{path}", "logs://ns/pod/c1", &[("path", "ns/pod/c1")]);
        fits(
            "repo://{owner}/{name}",
            "repo://x/y/z",
            &[("owner", "x/y"), ("name", "z")],
        );
        fits("a://{x}/{y}.txt", "a://1/2/3.txt", &[("x", "1/2"), ("y", "3")]);
        fits("{a}{b}{c}", "xyéz", &[("a", "xy"), ("b", "é"), ("c", "z")]);
        fits("a://{x}aa{y}", "a://1aaaa2", &[("x", "1aa"), ("y", "2")]);
        fits("a://{x}/", "a://1//", &[("x", "1/")]);
        fits("a://{x}", "a://%2F", &[("x", "%2F")]);
    }

    #[test]
    fn a_name_that_occurs_twice_has_its_last_value() {
        fits("e://{a}/{a}", "e://1/2", &[("a", "2")]);
        fits("e://{a}/{b}/{a}", "e://1/2/3", &[("b", "2"), ("a", "3")]);
    }

    #[test]
    fn spaces_in_braces_do_not_count_and_an_open_brace_is_literal() {
        fits("a://{ x }", "a://1", &[("x", "1")]);
        fits("a://{open", "a://{open", &[]);
        fits("a://{x}{open", "a://1{open", &[("x", "1")]);
        fits("a://fixed", "a://fixed", &[]);
        fits("", "", &[]);
    }

    #[test]
    fn the_whole_uri_must_fit() {
        for (template, uri) in [
            ("inv://{sku}", "inv://"),
            ("inv://{sku}", "INV://a"),
            ("demo://resource/{id}", "demo://other/7"),
            ("a://{x}/end", "a://1/end/2"),
            ("a://fixed", "a://fixed/more"),
            ("a://{x}{y}", "a://1"),
            ("a://{x}/{y}", "a:///1"),
            ("a://{x}bc{y}", "a://1bc"),
            ("a", ""),
        ] {
            assert_eq!(captures(template, uri), None, "{template} {uri}");
        }
    }

    #[test]
    fn a_template_whose_variables_hold_no_slash_ranks_first() {
        let rank = |template: &str, uri| Template::parse(template).rank(uri);
        assert!(rank("repo://{owner}/{name}", "repo://x/y").unwrap() < rank("repo://{all}", "repo://x/y").unwrap());
        assert_eq!(
            rank("repo://{owner}/{name}", "repo://x/y/z"),
            rank("repo://{all}", "repo://x/y")
        );
        assert_eq!(rank("repo://{all}", "repo://x"), rank("{scheme}://x", "repo://x"));
        assert_eq!(rank("a://{x}", "b://1"), None);
    }

    #[test]
    fn hostile_templates_take_no_longer_than_others() {
        let uri = "a".repeat(100_000);
        for template in [
            "{x}a".repeat(10_000) + "b",
            "{x}aaaa".repeat(1_000) + "{y}b",
            "{x}".repeat(50_000) + "b",
        ] {
            let template = Template::parse(&template);
            assert!(!template.matches(&uri));
            assert!(!template.matches(&(uri.clone() + "c")));
            assert!(!template.matches(&format!("b{uri}")));
        }
    }

    /// The meaning, word for word, in exponential time: all ways to split, longest values of the first variable first.
    fn first_split(variables: &[Variable], uri: &str) -> Option<Vec<String>> {
        let Some((variable, rest)) = variables.split_first() else {
            return uri.is_empty().then(Vec::new);
        };
        let ends: Vec<usize> = uri
            .char_indices()
            .map(|(at, _)| at)
            .chain([uri.len()])
            .filter(|at| *at > 0)
            .collect();
        ends.into_iter().rev().find_map(|end| {
            let after = uri.get(end..)?.strip_prefix(&*variable.tail)?;
            let mut values = vec![uri.get(..end)?.to_owned()];
            values.extend(first_split(rest, after)?);
            Some(values)
        })
    }

    proptest! {
        #[test]
        fn it_means_what_is_written(template in "[ab/]{0,2}(\\{[xyz]\\}[ab/]{0,2}){0,4}", uri in "[ab/é]{0,9}") {
            let read = Template::parse(&template);
            let expected = uri
                .strip_prefix(&*read.head)
                .and_then(|rest| first_split(&read.variables, rest));
            let mut values = Vec::new();
            let fits = read.split(&uri, |_, value| values.insert(0, value.to_owned()));
            prop_assert_eq!(read.matches(&uri), expected.is_some());
            let found = fits.then_some(values);
            prop_assert_eq!(&found, &expected);
            if let Some(values) = expected {
                let crosses_slash = values.iter().any(|value| value.contains('/'));
                prop_assert_eq!(read.rank(&uri), Some(Rank { crosses_slash }));
            }
        }

        #[test]
        fn no_template_and_no_uri_breaks_it(template in "[a{} ]{0,12}", uri in "[a{} é]{0,12}") {
            let read = Template::parse(&template);
            prop_assert_eq!(read.matches(&uri), read.captures(&uri).is_some());
        }
    }
}
