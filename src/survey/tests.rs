//! Surveys of small repositories made by real git, feature by feature (R90's table).
