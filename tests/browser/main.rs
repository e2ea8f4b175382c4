//! The live page in a browser: a room goes hot, its decision can be worked by hand, the edge refuses; phone, dark, light.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod driver;

use driver::{Browser, Guard, there};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Starts the demo; where its page is.
fn demo(arguments: &[&str]) -> (Guard, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_barrage"))
        .args(["demo", "--listen", "127.0.0.1:0"])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let child = Guard(child);
    let page = told
        .find_map(|l| l.split_whitespace().find(|w| w.starts_with("http://")).map(str::to_owned))
        .expect("the demo says where its page is");
    // The rest is read away, so that the demo never waits for a full pipe.
    std::thread::spawn(move || told.for_each(drop));
    (child, page)
}

/// A number as the page writes it.
fn number(text: &str) -> f64 {
    text.replace(',', "").replace('−', "-").parse().unwrap_or_else(|_| panic!("`{text}`"))
}

/// Works "(a − b) / c = r > t" by hand; none if there is no such sum.
fn worked(told: &str) -> Option<bool> {
    let (_, sum) = told.split_once(": (")?;
    let (rate, rest) = sum.split_once(" − ")?;
    let (base, rest) = rest.split_once(") / ")?;
    let (divisor, rest) = rest.split_once(" = ")?;
    let (ratio, rest) = rest.split_once(" > ")?;
    let threshold = rest.split([',', ' ']).next()?.trim_end_matches('.');
    let (rate, base) = (number(rate), number(base));
    let (divisor, ratio) = (number(divisor), number(ratio));
    // Each number is shown rounded to a tenth; so far may the quotient be off.
    let off = 0.005 + 0.1 / divisor * (1.0 + ratio);
    let equal = ((rate - base) / divisor - ratio).abs() <= off;
    Some(equal && ratio > number(threshold) - 0.005)
}

/// The sum of red, green and blue of the page's background, 0 to 765.
fn brightness(browser: &Browser) -> u32 {
    let colour = browser.value("getComputedStyle(document.body).backgroundColor");
    let colour = colour.as_str().unwrap().to_owned();
    let parts = colour.split(|c: char| !c.is_ascii_digit()).filter(|p| !p.is_empty());
    parts.take(3).map(|p| p.parse::<u32>().unwrap()).sum()
}

#[test]
fn a_room_goes_hot_and_the_page_shows_why() {
    if !there("chromium") || !there("chromedriver") {
        println!("not run: no Chromium");
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI requires Chromium");
        return;
    }
    let browser = Browser::start();
    let began = Instant::now();
    let (_demo, page) = demo(&["--seed", "7", "--speed", "4"]);
    browser.open(&page);

    let decision = "document.querySelector('#decisions li p')?.textContent";
    let first = browser.until(decision, 60);
    assert!(first.as_str().is_some_and(|t| t.contains("events in")), "{first}");
    println!("first decision on the page after {:.1} s", began.elapsed().as_secs_f64());
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());

    // A room goes hot: in the list, closely, and with a decision that can be worked by hand.
    let hot = "document.querySelector('#rooms li[data-level=\"2\"] .name')?.textContent";
    assert!(browser.until(hot, 90).is_string(), "no room ever reached level 2");
    let burst = "[...document.querySelectorAll('#decisions li[data-kind=level][data-rule=burst] p')]\
                 .map(p => p.textContent).find(t => t.includes(' = '))";
    let told = browser.until(burst, 30);
    let told = told.as_str().expect("a burst with its arithmetic");
    assert_eq!(worked(told), Some(true), "{told}");
    let stairs = "document.querySelector('#chart .stairs-line')?.getAttribute('d').includes('V')";
    assert!(browser.until(stairs, 30) == true, "the staircase of the chosen room has no step");
    let scene = "['goal', 'storm'].includes(document.getElementById('scene').textContent)";
    assert!(browser.until(scene, 30) == true);

    // The edge refuses what may be refused, and nothing else.
    let refused = |class: &str| {
        format!(
            "Number(document.querySelector('#edge tr[data-class={class}] .refused-total')\
             .textContent.replaceAll(',', ''))"
        )
    };
    assert!(browser.until(&format!("{} > 100", refused("chat")), 60) == true);
    for spared in ["system", "gift"] {
        assert_eq!(browser.value(&refused(spared)).as_f64(), Some(0.0), "{spared}");
    }

    fits_and_dresses(&browser);
    answers_the_keyboard(&browser);
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "the browser complained: {complaints:?}");
}

/// No horizontal scroll at any width; the system's colours, and the reader's own choice.
fn fits_and_dresses(browser: &Browser) {
    for (width, height, phone) in [(390, 844, true), (820, 1_180, true), (1_440, 900, false)] {
        browser.size(width, height, phone);
        let over = "document.documentElement.scrollWidth - window.innerWidth";
        assert_eq!(browser.value("window.innerWidth").as_u64(), Some(width.into()));
        let over = browser.value(over).as_i64().unwrap();
        assert!(over <= 0, "at {width} px the page is {over} px too wide");
    }
    browser.colours("light");
    assert!(brightness(browser) > 650, "light: {}", brightness(browser));
    browser.colours("dark");
    assert!(brightness(browser) < 100, "dark: {}", brightness(browser));
    // Two steps of the button: dark, then light, whatever the system says.
    browser.value("document.getElementById('theme').click()");
    browser.value("document.getElementById('theme').click()");
    assert!(brightness(browser) > 650, "chosen light: {}", brightness(browser));
}

/// Rooms are chosen without a mouse.
fn answers_the_keyboard(browser: &Browser) {
    let key = |name: &str| {
        for kind in ["keyDown", "keyUp"] {
            let text = if name == "Enter" && kind == "keyDown" { "\r" } else { "" };
            let key = serde_json::json!({"type": kind, "key": name, "code": name, "text": text,
                "windowsVirtualKeyCode": if name == "Enter" { 13 } else { 40 }});
            browser.command("Input.dispatchKeyEvent", &key);
        }
    };
    browser.value("document.querySelector('#rooms button').focus()");
    key("ArrowDown");
    let focused = "document.activeElement.querySelector('.name')?.firstChild.textContent";
    let room = browser.value(focused);
    assert!(room.is_string());
    key("Enter");
    let chosen = "document.getElementById('focus-room').textContent";
    // A busy machine takes its time between a key and what it does.
    let unfollowed = "document.getElementById('follow').ariaPressed === 'false'";
    assert!(browser.until(unfollowed, 20) == true);
    assert_eq!(browser.value(chosen), room);
}

#[test]
fn sums_are_worked_by_hand_and_wrong_ones_are_found() {
    let told = |ratio: &str| {
        format!(
            "480.0/s over 10 s is {ratio} × the baseline of 120.0/s above it: \
             (480.0 − 120.0) / 120.0 = {ratio} > 2.0, 10,800 > 1,500 events in 60 s, z = 31.2 > 4.0."
        )
    };
    assert_eq!(worked(&told("3.00")), Some(true));
    for wrong in ["3.10", "2.90", "1.99"] {
        assert_eq!(worked(&told(wrong)), Some(false), "{wrong}");
    }
    assert_eq!(worked("no sum"), None);
}
