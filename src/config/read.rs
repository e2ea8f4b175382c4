//! Reads a configuration's text: everything that is wrong at once, each with line, column and a way out.

use super::keys::{KEYS, Key, Kind, Value};
use super::settings::Config;
use barrage_engine::rules::text::{
    Lines, duration_ms, integer, listed, nearest, quoted, show_ms, type_name,
};
use std::net::SocketAddr;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Longest text read.
const BYTES_MAX: usize = 1 << 20;
/// Longest text of one setting.
const TEXT_MAX: usize = 4_096;
/// Most entries of a list.
const LIST_MAX: usize = 64;

/// One mistake in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong, and what to write instead.
    pub what: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.what)
    }
}

/// A value with its place.
type Node<'a> = Spanned<DeValue<'a>>;

struct Reader<'t> {
    lines: Lines<'t>,
    faults: Vec<Fault>,
    config: Config,
}

/// Reads a configuration.
///
/// # Errors
/// Every fault, in the order of the text.
pub fn read(text: &str) -> Result<Config, Vec<Fault>> {
    let lines = Lines::of(text);
    let mut reader = Reader { lines, faults: Vec::new(), config: Config::default() };
    if text.len() > BYTES_MAX {
        reader.fault(0, format!("{} bytes are no configuration: at most {BYTES_MAX}", text.len()));
        return Err(reader.faults);
    }
    match DeTable::parse(text) {
        Ok(table) => reader.top(table.get_ref()),
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            reader.fault(at, error.message().trim().to_owned());
        }
    }
    reader.together();
    reader.faults.sort_by_key(|f| (f.line, f.column));
    if reader.faults.is_empty() { Ok(reader.config) } else { Err(reader.faults) }
}

impl Reader<'_> {
    fn fault(&mut self, at: usize, what: String) {
        let (line, column) = self.lines.place(at);
        self.faults.push(Fault { line, column, what });
    }

    fn top(&mut self, table: &DeTable<'_>) {
        for (name, node) in table {
            let name_text: &str = name.get_ref();
            let inner = KEYS.iter().any(|k| k.table() == name_text && !name_text.is_empty());
            match (inner, node.get_ref()) {
                (true, DeValue::Table(inner)) => self.table(name_text, inner),
                (true, other) => {
                    let is = type_name(other);
                    let what = format!("`{name_text}` must be a table, not {is}: `[{name_text}]`");
                    self.fault(node.span().start, what);
                }
                (false, _) => self.entry("", name_text, name.span().start, node),
            }
        }
    }

    fn table(&mut self, table: &str, inner: &DeTable<'_>) {
        for (name, node) in inner {
            self.entry(table, name.get_ref(), name.span().start, node);
        }
    }

    fn entry(&mut self, table: &str, name: &str, at: usize, node: &Node<'_>) {
        match KEYS.iter().find(|k| k.table() == table && k.short() == name) {
            Some(key) => match value(key, node.get_ref()) {
                Ok(value) => (key.set)(&mut self.config, value),
                Err(what) => self.fault(node.span().start, format!("`{}`: {what}", key.name)),
            },
            None => {
                let what = unknown(table, name);
                self.fault(at, what);
            }
        }
    }

    /// What is right by itself and wrong together.
    fn together(&mut self) {
        let config = &self.config;
        let mut found = Vec::new();
        if let Err(what) = config.time.check() {
            found.push(what);
        }
        if !config.http.api.ip().is_loopback() {
            found.push(format!(
                "`http.api` = {}: it can be reached from other machines and asks nobody who they are; \
                 listen on 127.0.0.1:{} and use a tunnel",
                config.http.api,
                config.http.api.port()
            ));
        }
        if config.etcd.cert_file.is_some() != config.etcd.key_file.is_some() {
            found.push("`etcd.cert_file` and `etcd.key_file` come together".into());
        }
        let plain = |e: &&String| !e.starts_with("http://") && !e.starts_with("https://");
        if let Some(endpoint) = config.etcd.endpoints.iter().find(plain) {
            found.push(format!(
                "`etcd.endpoints`: {} begins neither with http:// nor https://",
                quoted(endpoint)
            ));
        }
        if config.etcd.endpoints.is_empty() {
            found.push("`etcd.endpoints` is empty; as in [\"http://127.0.0.1:2379\"]".into());
        }
        let url = &config.postgres.url;
        if !url.is_empty() && !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            found.push("`postgres.url` must begin with postgres://".into());
        }
        for what in found {
            self.fault(0, what);
        }
    }
}

fn unknown(table: &str, name: &str) -> String {
    let known: Vec<&str> = KEYS.iter().filter(|k| k.table() == table).map(Key::short).collect();
    let place = if table.is_empty() { "at the top".into() } else { format!("in [{table}]") };
    let elsewhere = KEYS.iter().find(|k| k.short() == name);
    let hint = match (nearest(name, &known), elsewhere) {
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, Some(key)) if key.table().is_empty() => "it belongs before the first [table]".into(),
        (None, Some(key)) => format!("it belongs into [{}]", key.table()),
        (None, None) if table.is_empty() => {
            let mut all = known;
            all.extend(["kafka", "etcd", "postgres", "http", "log", "time"]);
            match nearest(name, &all) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known here: {}", listed(&all)),
            }
        }
        (None, None) => format!("known here: {}", listed(&known)),
    };
    format!("unknown key {} {place} ({hint})", quoted(name))
}

fn value(key: &Key, value: &DeValue<'_>) -> Result<Value, String> {
    match (key.kind, value) {
        (Kind::Text | Kind::Path, DeValue::String(text)) => short(text).map(Value::Text),
        (Kind::Name, DeValue::String(text)) => name(text).map(Value::Text),
        (Kind::Word(words), DeValue::String(text)) => {
            let text: &str = text;
            if words.contains(&text) {
                return Ok(Value::Text(text.to_owned()));
            }
            Err(format!("{} is none of {}", quoted(text), listed(words)))
        }
        (Kind::Address, DeValue::String(text)) => match text.parse::<SocketAddr>() {
            Ok(address) => Ok(Value::Address(address)),
            Err(_) => {
                Err(format!("{} is no address and port, as in \"127.0.0.1:9464\"", quoted(text)))
            }
        },
        (Kind::Texts, DeValue::Array(list)) if list.len() <= LIST_MAX => {
            let texts = list.iter().map(|node| match node.get_ref() {
                DeValue::String(text) => short(text),
                other => Err(format!("the list holds {}, not only texts", type_name(other))),
            });
            texts.collect::<Result<_, _>>().map(Value::Texts)
        }
        (Kind::Texts, DeValue::Array(_)) => Err(format!("at most {LIST_MAX} entries")),
        (Kind::Number(min, max), DeValue::Integer(n)) => {
            let number = integer(n).and_then(|n| u64::try_from(n).ok());
            match number.filter(|n| (min..=max).contains(n)) {
                Some(n) => Ok(Value::Number(n)),
                None => Err(format!("{} is out of range, {min} to {max}", quoted(n.as_str()))),
            }
        }
        (Kind::Time(min, max), DeValue::String(text)) => {
            let ms = duration_ms(text)
                .map_err(|why| format!("{} {why}, as in \"500ms\"", quoted(text)))?;
            if (min..=max).contains(&ms) {
                return Ok(Value::Number(ms));
            }
            let (min, max) = (show_ms(min), show_ms(max));
            Err(format!("{} is out of range, \"{min}\" to \"{max}\"", quoted(text)))
        }
        (kind, other) => Err(format!("must be {}, not {}", wanted(kind), type_name(other))),
    }
}

fn wanted(kind: Kind) -> &'static str {
    match kind {
        Kind::Text | Kind::Name | Kind::Path | Kind::Word(_) => "a text",
        Kind::Address => "a text with address and port",
        Kind::Texts => "a list of texts",
        Kind::Number(..) => "a whole number",
        Kind::Time(..) => "a time with its unit, as in \"500ms\"",
    }
}

fn short(text: &str) -> Result<String, String> {
    if text.len() > TEXT_MAX || text.chars().any(char::is_control) {
        return Err(format!(
            "{} has control characters or more than {TEXT_MAX} bytes",
            quoted(text)
        ));
    }
    Ok(text.to_owned())
}

fn name(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if text.is_empty() || text.len() > 100 || !text.chars().all(allowed) {
        return Err(format!(
            "{} cannot be a name: 1 to 100 letters, digits, `_`, `-` and `.`",
            quoted(text)
        ));
    }
    Ok(text.to_owned())
}
