# cmake -DROOT=DIR -DOUTPUT=FILE -P interface.cmake writes a header with one macro: a hash of the text of all headers,
# by which a program and the parts that it loads know each other. A file that would not change is left alone.
file(GLOB_RECURSE headers RELATIVE ${ROOT} ${ROOT}/host/*.h ${ROOT}/sandbox/*.h ${ROOT}/trainer/*.h)
list(SORT headers)
set(all "")
foreach(header IN LISTS headers)
  file(SHA256 ${ROOT}/${header} hash)
  string(APPEND all "${header} ${hash}\n")
endforeach()
string(SHA256 hash "${all}")
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define KHOST_INTERFACE \"${hash}\"\n")
