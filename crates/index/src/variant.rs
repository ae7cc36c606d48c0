//! The names of the variants of a system.

/// Implements the names of a variant type that lists them in `ALL`. The last step, which completes the system, has a
/// second name: that of the technique it adds.
macro_rules! named {
    ($variant:ty, $step:literal is $system:literal) => {
        impl $variant {
            /// The name in records and on the command line.
            pub fn name(self) -> &'static str {
                Self::ALL.iter().find(|(variant, _)| *variant == self).map_or("", |(_, name)| name)
            }
        }

        impl std::fmt::Display for $variant {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $variant {
            type Err = String;

            fn from_str(name: &str) -> Result<Self, String> {
                let plain = if name == $step { $system } else { name };
                let found = Self::ALL.iter().find(|(_, known)| *known == plain);
                found.map(|(variant, _)| *variant).ok_or_else(|| {
                    let names = Self::ALL.iter().map(|(_, name)| match *name {
                        $system if $step != $system => concat!($step, " = ", $system),
                        name => name,
                    });
                    let names: Vec<_> = names.collect();
                    format!("there is no variant '{name}'; give one of {}", names.join(", "))
                })
            }
        }
    };
}

pub(crate) use named;
