"""AGInt: takes a directive, divides it into phases, and sees a mission through, one BDI agent for each phase."""
