//! A new or changed migration triggers a rebuild: the migrations are embedded, and cargo does not see the folder.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
