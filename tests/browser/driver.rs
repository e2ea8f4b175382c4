//! A browser without a window, driven over WebDriver (W3C) by a client of a few lines.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Longest wait for one answer; scripts that wait inside the page give up sooner.
const PATIENCE: Duration = Duration::from_secs(180);

/// A process that is ended with the test.
pub(crate) struct Guard(pub(crate) Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether a program can be started.
pub(crate) fn there(program: &str) -> bool {
    let mut asked = Command::new(program);
    asked.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    asked.status().is_ok_and(|s| s.success())
}

/// A session with a browser.
pub(crate) struct Browser {
    address: String,
    session: String,
    _driver: Guard,
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ends the browser; the driver is ended after it.
        let _ = call(&self.address, "DELETE", &format!("/session/{}", self.session), &json!({}));
    }
}

impl Browser {
    /// Starts driver and browser.
    pub(crate) fn start() -> Self {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver starts");
        let mut out = BufReader::new(driver.stdout.take().expect("a pipe")).lines();
        let driver = Guard(driver);
        let port = out
            .by_ref()
            .map_while(Result::ok)
            .find_map(|l| {
                let (_, port) = l.rsplit_once("successfully on port ")?;
                Some(port.trim_end_matches('.').to_owned())
            })
            .expect("chromedriver says its port");
        // The rest is read away, so that the driver never waits for a full pipe.
        std::thread::spawn(move || out.map_while(Result::ok).for_each(drop));
        let address = format!("127.0.0.1:{port}");
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--window-size=1440,900"]},
            "goog:loggingPrefs": {"browser": "ALL"},
            "timeouts": {"script": 120_000}}}});
        let answer = call(&address, "POST", "/session", &wanted);
        let session = answer["sessionId"].as_str().expect("a session").to_owned();
        Self { address, session, _driver: driver }
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        call(&self.address, "POST", &format!("/session/{}/{path}", self.session), body)
    }

    /// Opens a page.
    pub(crate) fn open(&self, url: &str) {
        self.post("url", &json!({"url": url}));
    }

    /// The value of an expression in the page.
    pub(crate) fn value(&self, expression: &str) -> Value {
        self.post("execute/sync", &json!({"script": format!("return {expression}"), "args": []}))
    }

    /// Waits inside the page until an expression is true of it; its value then, or null after `secs`.
    pub(crate) fn until(&self, expression: &str, secs: u64) -> Value {
        let script = format!(
            "const done = arguments[0]; const begun = Date.now(); const look = () => {{ \
             const value = ({expression}); \
             if (value) {{ done(value); }} \
             else if (Date.now() - begun > {secs} * 1000) {{ done(null); }} \
             else {{ setTimeout(look, 100); }} }}; look();"
        );
        self.post("execute/async", &json!({"script": script, "args": []}))
    }

    /// A command of the browser's own protocol.
    pub(crate) fn command(&self, name: &str, params: &Value) -> Value {
        self.post("goog/cdp/execute", &json!({"cmd": name, "params": params}))
    }

    /// Shows the page at a size, as a phone or a desk would.
    pub(crate) fn size(&self, width: u32, height: u32, phone: bool) {
        self.command(
            "Emulation.setDeviceMetricsOverride",
            &json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone}),
        );
    }

    /// What the system says about colours: `dark` or `light`.
    pub(crate) fn colours(&self, scheme: &str) {
        let feature = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.command("Emulation.setEmulatedMedia", &json!({"features": feature}));
    }

    /// What the browser complained about since the last call.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let log = self.post("se/log", &json!({"type": "browser"}));
        let entries = log.as_array().cloned().unwrap_or_default();
        entries.iter().map(|e| format!("{} {}", e["level"], e["message"])).collect()
    }
}

/// One request and the value of its answer.
fn call(address: &str, method: &str, path: &str, body: &Value) -> Value {
    let body = body.to_string();
    let mut socket = TcpStream::connect(address).expect("the driver listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    write!(
        socket,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .expect("the driver takes a request");
    let mut reader = BufReader::new(socket);
    let mut length = 0;
    for line in reader.by_ref().lines() {
        let line = line.expect("a header");
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().expect("a length");
        }
    }
    let mut text = vec![0; length];
    reader.read_exact(&mut text).expect("the whole answer");
    let mut answer: Value = serde_json::from_slice(&text).expect("JSON");
    let value = answer["value"].take();
    assert!(value.get("error").is_none(), "{method} {path}: {value}");
    value
}
