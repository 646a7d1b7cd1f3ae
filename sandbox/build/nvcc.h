// The CUDA compiler's own steps, run side by side. nvcc runs the host's half (preprocess, cudafe++) and the device's
// half (preprocess, cicc, ptxas) of one file one after the other, and links twice; here the halves, and all files, run
// at once, and the second link, which only relocatable device code needs, is left out.
#pragma once

#include <string>
#include <vector>

namespace khost::sandbox {

// Machine code for sm_NN alone, with what only this architecture has (sm_90 and later: wgmma and its like).
std::vector<std::string> architecture_flags(const std::string& arch);

// A command line for /bin/sh that makes the shared library `out` of `sources` (.cu, .cpp); its temporary files lie in
// /tmp. No word may hold blanks or quotes. With `host_flags` a .cpp is compiled by g++ with these alone, and its object
// is left in /out under its path with _ for /, and .o. It fails as the first failing step does, with the compiler's
// words on stderr.
std::vector<std::string> nvcc_steps(const std::string& nvcc, const std::string& out,
                                    const std::vector<std::string>& sources, const std::vector<std::string>& flags,
                                    const std::vector<std::string>& link_flags,
                                    const std::vector<std::string>& host_flags = {});

}  // namespace khost::sandbox
