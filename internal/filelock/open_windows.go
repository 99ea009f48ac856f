package filelock

import (
	"os"

	"golang.org/x/sys/windows"
)

// open opens a file that is not a link. create is 0, or the flags to create it.
func open(path string, create int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|create|windows.O_FILE_FLAG_OPEN_REPARSE_POINT, 0o666)
	if err != nil {
		return nil, err
	}
	var info windows.ByHandleFileInformation
	err = windows.GetFileInformationByHandle(windows.Handle(f.Fd()), &info)
	if err == nil && info.FileAttributes&windows.FILE_ATTRIBUTE_REPARSE_POINT != 0 {
		err = notLock(path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
